#include "zero/base/files/sha256.h"

#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "zero/base/error/check.h"

namespace zero {

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  ZERO_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "libcrypto has no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  ZERO_CHECK(context_ != nullptr, "update after finish_hex");
  ZERO_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish_hex() {
  ZERO_CHECK(context_ != nullptr, "finish_hex twice");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  ZERO_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1 && size == 32);
  context_.reset();
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

}  // namespace zero
