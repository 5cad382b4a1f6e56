// The handshake: ranks of one run prove to each other at the rendezvous that they share a secret, without sending it.
//
//   client -> server   kHello {name of the run, nonce}        server -> client   kHello {name of the run, nonce}
//   client -> server   kProof {HMAC of both nonces}           server -> client   kProof {HMAC of both nonces}
//
// The proof is an HMAC-SHA256, keyed with the run's secret (rendezvous_secret()), over the prover's side and both
// nonces. Each side draws one of the nonces for this connection only. So nobody can reuse an overheard proof, or return
// a side's own proof as an answer. The client proves first: a client that cannot gets kRefusal and no proof. Later
// messages are not encrypted: the handshake keeps strangers out, not eavesdroppers. Errors are StoreErrors.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace zero::meeting {

inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;
inline constexpr std::size_t kMostNameBytes = 256;  // sent bytes of a run's name; the secret uses the whole name

enum class Side : char { kClient = 'c', kServer = 's' };

struct Nonces {
  std::vector<char> client, server;
};

std::vector<char> draw_nonce();
// Returns the secret of a run: the job's token, if there is one, and the run's whole name.
std::string rendezvous_secret(std::string_view token, std::string_view run_id);
std::vector<char> prove(const std::string& secret, Side side, const Nonces& nonces);
// Compares in a time that does not reveal where the proofs differ.
bool same_proof(const std::vector<char>& one, const std::vector<char>& other);

struct Greeting {
  enum class End {
    kIn,
    kAnother,  // another run, by its own account
    kRefused,  // the two sides have different secrets
    kGone,     // hung up before its first message; it may have been busy
    kNobody,   // no rendezvous
  } end = End::kNobody;
  std::string name;  // kAnother: the name of that run
};

// Performs the client's part on a blocking connection, until `limit` has passed.
Greeting greet_server(int socket, const std::string& name, const std::string& secret, std::chrono::milliseconds limit);

}  // namespace zero::meeting
