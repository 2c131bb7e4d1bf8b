"""Who asks, and whether they may: identities, service account tokens, role-based access control."""
