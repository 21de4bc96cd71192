"""The kinds of Kueue as custom resources, and the webhooks that the API server asks about them."""
