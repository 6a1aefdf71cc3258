"""Golden data for Kinora's modules: reference modules at tiny sizes, run in float32 on the CPU (see
tests/golden/README.md)."""
