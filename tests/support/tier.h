// How much of a sweep a test tries: `./test.sh` a sample of it, `./test.sh full` (ZERO_TEST_TIER=full) all of it.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace zero {

inline bool in_full_tier() {
  const char* const tier = std::getenv("ZERO_TEST_TIER");
  return tier != nullptr && std::string_view(tier) == "full";
}

// How often something random is tried; the environment's `variable`, where it is set, says another number.
inline int num_trials(const char* variable, int sample, int full) {
  if (const char* const asked = std::getenv(variable)) return std::atoi(asked);
  return in_full_tier() ? full : sample;
}

// Random cases of each property of this test program, where they are costly: `sample` instead of RapidCheck's hundred.
// RC_PARAMS in the environment says another number. For a static variable: RapidCheck looks once, at its first property.
inline bool sample_properties(int sample) {
  if (!in_full_tier()) ::setenv("RC_PARAMS", ("max_success=" + std::to_string(sample)).c_str(), /*overwrite=*/0);
  return true;
}

// The cells of nested loops in turn: the full tier takes all, a sample the first and then each `one_in`-th. Where
// `one_in` and the lengths of the inner loops have no factor in common, a sample meets every value of every loop.
class Sweep {
 public:
  explicit Sweep(int one_in) : one_in_(in_full_tier() ? 1 : one_in) {}
  bool takes_next() { return next_++ % one_in_ == 0; }

 private:
  int one_in_;
  int next_ = 0;
};

}  // namespace zero
