// The handshake: ranks of one run prove to each other at the rendezvous that they share a secret, without sending it.
//
//   client -> server   kHello {name of the run, nonce}        server -> client   kHello {name of the run, nonce}
//   client -> server   kProof {HMAC of both nonces}           server -> client   kProof {HMAC of both nonces}
//
// The proof is HMAC-SHA256 under the run's secret (rendezvous_secret()), over the prover's side and both nonces. Either
// side has drawn one of the nonces for this connection alone, so an overheard proof is worth nothing later, and a
// side's own proof sent back is no answer. The client proves first: a client that cannot gets kRefusal and no proof.
// Later messages are not encrypted: the handshake keeps strangers out, not eavesdroppers. Errors are StoreErrors.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zero::meeting {

inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kMostNameBytes = 256;  // of a run's name as it is sent; the rest counts in the secret

enum class Side : char { kClient = 'c', kServer = 's' };

struct Nonces {
  std::vector<char> client, server;
};

std::vector<char> draw_nonce();
// The secret of a run: the job's token, if there is one, and the run's whole name.
std::string rendezvous_secret(std::string_view token, std::string_view run_id);
std::vector<char> prove(const std::string& secret, Side side, const Nonces& nonces);
// In a time that does not tell where they differ.
bool same_proof(const std::vector<char>& one, const std::vector<char>& other);

struct Greeting {
  enum class End {
    kIn,
    kAnother,  // another run, as it said itself
    kRefused,  // it does not have our secret, or we do not have its
    kGone,     // hung up before it said anything: it may have been busy
    kNobody,   // something else than a rendezvous
  } end = End::kNobody;
  std::string name;  // kAnother: which one
};

// The client's part, on a connection that blocks, until `limit` has passed.
Greeting greet_server(int socket, const std::string& name, const std::string& secret, std::chrono::milliseconds limit);

}  // namespace zero::meeting
