// listen_at(), accept_one(), connect_once(): TCP between machines, for ranks that meet at an agreed port.
//
//   const int listener = listen_at(29500, /*one_host=*/false);          // -1: errno says why
//   std::string address;
//   const int from = accept_one(listener, address);                     // -1: nobody has come
//   const int to = connect_once("10.0.0.1", 29500, 1000ms, why);        // -1: `why`
//
// The caller owns the descriptors; programs that it starts do not inherit them. Local. Nothing is thrown.
#pragma once

#include <chrono>
#include <string>

namespace zero::meeting {

// Listens at `port` (0: any free port): with `one_host` only on 127.0.0.1, else on all addresses, IPv4 and, if the
// system has it, IPv6. The listener does not block.
int listen_at(int port, bool one_host);

// Accepts a connection that does not block. `address`: the peer's address, as digits.
int accept_one(int listener, std::string& address);

// Tries each address of the name once, each for at most `limit`. Reads and writes of the connection block.
int connect_once(const std::string& name, int port, std::chrono::milliseconds limit, std::string& why);

}  // namespace zero::meeting
