"""Does training resist clustering: one ladder of models from identity matrices to the decoder, measured alike."""
