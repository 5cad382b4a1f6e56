// The file of a plug-in: a library that is opened when it is needed, so that the core links nothing of it.
//
//   plugin_file("libzero_transport_mpi.so")     // beside the library or program that this code is in, in its ../lib, or
//                                          // where it was built; "" if nowhere
// Local.
#pragma once

#include <string>
#include <string_view>

namespace zero {

std::string plugin_file(std::string_view name);

}  // namespace zero
