// listen_at(), accept_one(), connect_once(): TCP between machines, for those who meet at a port that was agreed.
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

// Port 0: any free one. Of one host on 127.0.0.1 alone; else on all addresses, IPv6 and IPv4 where there is IPv6. Accepts
// without waiting.
int listen_at(int port, bool one_host);

// A connection that does not wait, and the address it comes from, as digits.
int accept_one(int listener, std::string& address);

// One try on each address that the name has, each for up to `limit`. Reads and writes of the connection wait.
int connect_once(const std::string& name, int port, std::chrono::milliseconds limit, std::string& why);

}  // namespace zero::meeting
