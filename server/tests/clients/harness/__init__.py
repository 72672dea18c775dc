"""Drives unchanged official RocketMQ clients against a broker; Python standard library only. See ../README.md."""
