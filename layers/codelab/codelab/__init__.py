"""The library that all functions share."""

from codelab import garbage, trace_id

garbage.wait()
trace_id.keep_out_of_c()
