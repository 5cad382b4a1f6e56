// Sha256: SHA-256 of bytes that arrive in pieces, by OpenSSL's libcrypto (with the processor's SHA instructions).
//
//   Sha256 hash;
//   for (auto piece : pieces) hash.update(piece);
//   hash.finish_hex();                    // "e3b0c442..." 64 digits; once
//
// The digest does not depend on how the bytes are cut. Local; not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace zero {

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  std::string finish_hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace zero
