"""Why a translation has the words it has: occlusion, contributions, the logit lens, the beam."""
