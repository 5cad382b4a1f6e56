// The function that the loader finds first if libzero_core.so is another build's.
extern "C" const char* zero_core_build_name() {
  return "0.0.9, commit 0123456789ab";
}
