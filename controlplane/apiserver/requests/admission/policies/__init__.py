"""Admission policies written in CEL: which requests they are about, what they see, what they decide.

`matching` says whether a rule is about a request, `expressions` compiles and computes, `parameters`
finds what a binding hands to its policy, `source` keeps the stored policies compiled, `validating`
and `mutating` decide. Upstream: apiserver pkg/admission/plugin/policy.
"""
