// StoreSession: the server's part of the handshake (handshake.h) with one connection, without sockets.
//
//   StoreSession session;
//   StoreSession::Answer answer = session.take(message, "run", secret);    // send answer.bytes; hang up unless goes_on
//
// Invariant: proved() only after a proof over the nonce that this session drew. Local. Throws StoreError if the kernel
// has no random bytes, or libcrypto no HMAC.
#pragma once

#include <string>
#include <vector>

#include "zero/comm/rendezvous/handshake.h"
#include "zero/comm/rendezvous/store_messages.h"

namespace zero::meeting {

class StoreSession {
 public:
  struct Answer {
    bool goes_on = false;
    std::vector<char> bytes;  // may be empty
    std::string refusal;      // a line for the log; empty: the client may have connected by mistake
  };

  // Takes the next message, before proved(). `name`: the run's name, as it is sent.
  Answer take(const Message& message, const std::string& name, const std::string& secret);

  bool proved() const { return state_ == State::kProved; }
  // Returns the largest sizes of the next message.
  Caps caps() const { return proved() ? kAfterProof : kBeforeProof; }

 private:
  enum class State { kNew, kGreeted, kProved };

  Answer greet(const Message& message, const std::string& name);
  Answer check_proof(const Message& message, const std::string& secret);

  State state_ = State::kNew;
  Nonces nonces_;
};

}  // namespace zero::meeting
