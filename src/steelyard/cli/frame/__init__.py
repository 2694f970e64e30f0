"""What all verbs share: where the cluster is, how answers are printed, how failures end."""
