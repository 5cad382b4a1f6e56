// StoreSession: the server's part of the handshake (handshake.h) with one connection, without sockets.
//
//   StoreSession session;
//   StoreSession::Answer answer = session.take(message, "run", secret);    send answer.bytes; end it unless goes_on
//
// Invariant: proved() only after a proof over the nonce that this session drew. Throws StoreError when the kernel has
// no random bytes, or libcrypto no HMAC. Local.
#pragma once

#include <string>
#include <vector>

#include "zero/rendezvous/handshake.h"
#include "zero/rendezvous/store_messages.h"

namespace zero::meeting {

class StoreSession {
 public:
  struct Answer {
    bool goes_on = false;
    std::vector<char> bytes;  // may be none
    std::string refusal;      // worth a line; empty: it may be somebody who came by mistake
  };

  // `name` of the run, as it is sent. Not after proved().
  Answer take(const Message& message, const std::string& name, const std::string& secret);

  bool proved() const { return state_ == State::kProved; }
  // Of the next message.
  Caps caps() const { return proved() ? kAfterProof : kBeforeProof; }

 private:
  enum class State { kNew, kGreeted, kProved };

  Answer greet(const Message& message, const std::string& name);
  Answer check_proof(const Message& message, const std::string& secret);

  State state_ = State::kNew;
  Nonces nonces_;
};

}  // namespace zero::meeting
