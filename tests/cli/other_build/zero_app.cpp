// A libzero_app.so of another build, for the command to open. The command reads only its name.
namespace {

struct Verbs {
  const char* abi = "0.0.9, commit 0123456789ab";
};
constexpr Verbs kVerbs;

}  // namespace

extern "C" const Verbs* zero_torch_verbs() {
  return &kVerbs;
}
