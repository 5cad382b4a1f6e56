// ComputingPlace: what of a rank's machine and build decides the last bits of its gradients, beside the configuration.
//
//   const ComputingPlace here = computing_place(job.attach.threads);
//   place_of_text(to_text(here)) == here
//   why_other_bits(recorded, here)     // "libtorch 2.10.0, and libtorch 2.11.0 here"; empty: the same bits
//
// libtorch divides a product of matrices among threads, and multiplies with the processor's widest instructions, in an order of
// its own for each. Settings are the variables of its environment with which its libraries choose instructions. Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct ComputingPlace {
  int threads = 1;           // of libtorch's operators
  std::string zero;          // version
  std::string libtorch;      // version
  std::string instructions;  // "AVX512+AVX3": of libtorch's own operators, and the processor's
  std::string settings;      // "MKL_CBWR=COMPATIBLE"; "-": none
  std::string processor;     // its name, for people: others with the same instructions may have other bits
  bool operator==(const ComputingPlace&) const = default;
};

ComputingPlace computing_place(int threads);

// "threads 2 zero 1.0.0 libtorch 2.11.0 instructions AVX2+AVX2 settings - processor Intel(R) Xeon(R)", one line.
std::string to_text(const ComputingPlace& place);
// Nothing for another text.
std::optional<ComputingPlace> place_of_text(std::string_view text);

// Of several ranks, each place once, "; " between them. And what differs between two such texts, for people; empty: nothing, or
// `then` is of an earlier version.
std::string text_of_places(std::vector<ComputingPlace> places);
std::string changed_places(std::string_view then, std::string_view now);

// What differs but threads, which can be set, and the processor's name: "KEY THEN, and KEY NOW here". Empty: nothing.
std::string why_other_bits(const ComputingPlace& then, const ComputingPlace& now);

}  // namespace zero
