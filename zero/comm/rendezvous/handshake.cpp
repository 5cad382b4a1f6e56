#include "zero/comm/rendezvous/handshake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "zero/comm/rendezvous/store_messages.h"

namespace zero::meeting {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

}  // namespace

std::vector<char> draw_nonce() {
  std::vector<char> nonce(kNonceBytes);
  for (std::size_t done = 0; done < nonce.size();) {
    const ssize_t got = getrandom(nonce.data() + done, nonce.size() - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw StoreError(std::string("random bytes from the kernel: ") + std::strerror(errno));
    done += static_cast<std::size_t>(got);
  }
  return nonce;
}

std::string rendezvous_secret(std::string_view token, std::string_view run_id) {
  return std::string(token) + '\n' + std::string(run_id);
}

std::vector<char> prove(const std::string& secret, Side side, const Nonces& nonces) {
  std::string text = "zero.cpp rendezvous 1 ";
  text += static_cast<char>(side);
  text.append(nonces.client.begin(), nonces.client.end());
  text.append(nonces.server.begin(), nonces.server.end());
  std::vector<char> proof(kProofBytes);
  unsigned int bytes = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &bytes) == nullptr ||
      bytes != kProofBytes) {
    throw StoreError("libcrypto has no HMAC-SHA256");
  }
  return proof;
}

bool same_proof(const std::vector<char>& one, const std::vector<char>& other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

Greeting greet_server(int socket, const std::string& name, const std::string& secret, milliseconds limit) {
  using End = Greeting::End;
  const auto deadline = Clock::now() + limit;
  Nonces nonces{.client = draw_nonce(), .server = {}};
  const std::string sent_name = name.substr(0, kMostNameBytes);
  Message answer;
  if (!write_message(socket, {.operation = Operation::kHello, .key = sent_name, .value = nonces.client}))
    return {End::kGone, {}};
  const Read read = read_message(socket, answer, left_until(deadline), kBeforeProof);
  if (read != Read::kDone) return {read == Read::kClosed ? End::kGone : End::kNobody, {}};
  if (answer.operation != Operation::kHello) return {End::kNobody, {}};
  if (answer.key != sent_name) return {End::kAnother, answer.key};
  if (answer.value.size() != kNonceBytes) return {End::kNobody, {}};
  nonces.server = answer.value;
  if (!write_message(socket,
                     {.operation = Operation::kProof, .key = {}, .value = prove(secret, Side::kClient, nonces)}) ||
      read_message(socket, answer, left_until(deadline), kBeforeProof) != Read::kDone) {
    return {End::kGone, {}};
  }
  const bool proved =
      answer.operation == Operation::kProof && same_proof(answer.value, prove(secret, Side::kServer, nonces));
  return {proved ? End::kIn : End::kRefused, {}};
}

}  // namespace zero::meeting
