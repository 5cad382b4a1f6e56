// build_name(): the build of a binary.
//
//   build_name()                            // of the binary that calls: "0.1.0, commit 8e28e7a1d0c2"
//   require_same_build(file_of(entry), verbs.abi);
//
// The command, libzero_app.so and libzero_core.so pass each other C++ values, so all three must be of the same build.
//
// Local.
#pragma once

#include <string>
#include <string_view>

namespace zero::cli {

// Hidden, because each binary has its own function. Without git, the name is only the version.
[[gnu::visibility("hidden")]] const char* build_name();

// Returns the path of the loaded file whose code contains `address`; "" if there is none.
std::string file_of(const void* address);

// Throws ConfigError if `built`, the build name of `library`, differs from the command's.
void require_same_build(std::string_view library, std::string_view built);
// Checks the build of libzero_core.so, which the loader has already opened. Throws as require_same_build() does.
void require_same_core();

}  // namespace zero::cli
