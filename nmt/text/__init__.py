"""What text needs before and after a model: sentences, kept spans, case, noise, repetition."""
