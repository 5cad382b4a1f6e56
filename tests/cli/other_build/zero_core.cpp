// What the loader finds first where libzero_core.so is of another build.
extern "C" const char* zero_core_build_name() {
  return "0.0.9, commit 0123456789ab";
}
