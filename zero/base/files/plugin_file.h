// plugin_file(): finds a plug-in, a library that is loaded on demand, so the core need not link its dependencies.
//
//   plugin_file("libzero_transport_mpi.so")     // beside the library or program of this code, in its ../lib, or
//                                               // in the build folder; "" if nowhere
// Local.
#pragma once

#include <string>
#include <string_view>

namespace zero {

std::string plugin_file(std::string_view name);

}  // namespace zero
