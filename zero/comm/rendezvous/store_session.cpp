#include "zero/comm/rendezvous/store_session.h"

namespace zero::meeting {

StoreSession::Answer StoreSession::take(const Message& message, const std::string& name, const std::string& secret) {
  return state_ == State::kNew ? greet(message, name) : check_proof(message, secret);
}

StoreSession::Answer StoreSession::greet(const Message& message, const std::string& name) {
  if (message.operation != Operation::kHello || message.value.size() != kNonceBytes) return {};
  const bool ours = message.key == name;
  nonces_ = {.client = message.value, .server = draw_nonce()};
  state_ = State::kGreeted;
  return {.goes_on = ours,
          .bytes = to_bytes(
              {.operation = Operation::kHello, .key = name, .value = ours ? nonces_.server : std::vector<char>()}),
          .refusal = {}};
}

StoreSession::Answer StoreSession::check_proof(const Message& message, const std::string& secret) {
  if (message.operation != Operation::kProof) return {};
  if (!same_proof(message.value, prove(secret, Side::kClient, nonces_))) {
    return {.goes_on = false,
            .bytes = to_bytes({.operation = Operation::kRefusal, .key = {}, .value = {}}),
            .refusal = "it does not have this run's token"};
  }
  state_ = State::kProved;
  return {
      .goes_on = true,
      .bytes = to_bytes({.operation = Operation::kProof, .key = {}, .value = prove(secret, Side::kServer, nonces_)}),
      .refusal = {}};
}

}  // namespace zero::meeting
