"""The script that wrote the stored files runs with version 0.1 only."""

collect_ignore = ["written_by_0_1/write.py"]
