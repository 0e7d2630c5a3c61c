"""Two-hop questions that the project makes itself, in the schemas of HotpotQA and MuSiQue."""
