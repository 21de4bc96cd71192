"""Go's text/template with the functions of sprig: what stages of KWOK render patches with.

No kept library of Python reads these templates. A template reaches neither files, environment nor network, its time and
chance are given by the caller, and its work is bounded.
"""

from controlplane.kwok.gotemplate.execution import check, render
from controlplane.kwok.gotemplate.printing import Number, numbers, plain
from controlplane.kwok.gotemplate.syntax import TemplateError

__all__ = ["Number", "TemplateError", "check", "numbers", "plain", "render"]
