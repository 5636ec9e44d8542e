"""Why a translation has the words it has: gradients, contributions, the logit lens, the beam."""
