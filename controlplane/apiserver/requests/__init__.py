"""What a request does: registry, listing, patching, apply, admission, authorization, custom resources."""
