"""Connections to brokers: frames, requests and answers, SASL and TLS, who leads what."""
