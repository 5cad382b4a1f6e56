// The tier of the tests: `./test.sh` tries a sample of a sweep, `./test.sh full` (ZERO_TEST_TIER=full) all of it.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace zero {

inline bool in_full_tier() {
  const char* const tier = std::getenv("ZERO_TEST_TIER");
  return tier != nullptr && std::string_view(tier) == "full";
}

// The number of random trials: the value of the environment's `variable`, or `sample` or `full` by tier.
inline int num_trials(const char* variable, int sample, int full) {
  if (const char* const asked = std::getenv(variable)) return std::atoi(asked);
  return in_full_tier() ? full : sample;
}

// Limits each property of this test program to `sample` random cases instead of RapidCheck's hundred, if cases are
// slow. RC_PARAMS in the environment takes precedence. Call it for a static variable, because RapidCheck reads
// RC_PARAMS only at its first property.
inline bool sample_properties(int sample) {
  if (!in_full_tier()) ::setenv("RC_PARAMS", ("max_success=" + std::to_string(sample)).c_str(), /*overwrite=*/0);
  return true;
}

// Selects cells of nested loops. The full tier takes all; a sample takes the first and then each `one_in`-th. If
// `one_in` is coprime to the lengths of the inner loops, a sample still meets every value of every loop.
class Sweep {
 public:
  explicit Sweep(int one_in) : one_in_(in_full_tier() ? 1 : one_in) {}
  bool takes_next() { return next_++ % one_in_ == 0; }

 private:
  int one_in_;
  int next_ = 0;
};

}  // namespace zero
