"""One turn: begin and end its calls, decide about each, word the decision for the model."""
