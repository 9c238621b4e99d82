"""The chaos run of two clusters: dialogs cross a network that loses, repeats and delays, while processes and brokers are killed."""
