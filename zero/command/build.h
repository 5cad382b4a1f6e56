// build_name(): which build a binary is of. The command, libzero.so and libzero_core.so must be of one, since they pass
// each other C++ values.
//
//   build_name()                            // of the binary that calls: "0.1.0, commit 8e28e7a1d0c2"
//   require_same_build(file_of(entry), verbs.abi);
//
// Local.
#pragma once

#include <string>
#include <string_view>

namespace zero::cli {

// Hidden: each binary has its own. Without git: the version alone.
[[gnu::visibility("hidden")]] const char* build_name();

// The loaded file that has a function of it at `address`.
std::string file_of(const void* address);

// `built`: the name of the library's build. Throws ConfigError when it is not that of the command.
void require_same_build(std::string_view library, std::string_view built);
// The same for libzero_core.so, which the loader has opened by now.
void require_same_core();

}  // namespace zero::cli
