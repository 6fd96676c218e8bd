"""Connections to brokers: frames, requests and answers, SASL and TLS, partition leaders and coordinators."""
