// ComputingPlace: the facts of a rank's machine and build that decide the last bits of its gradients.
//
//   const ComputingPlace here = computing_place(job.attach.threads);
//   place_of_text(to_text(here)) == here
//   why_other_bits(recorded, here)     // "libtorch 2.10.0, and libtorch 2.11.0 here"; empty: the same bits
//
// The configuration also decides these bits. libtorch divides a matrix product among threads, and uses the processor's
// widest instructions. The order of additions depends on both. Settings are environment variables with which its
// libraries choose instructions. Local.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

struct ComputingPlace {
  int threads = 1;           // threads of libtorch's operators
  std::string zero;          // version
  std::string libtorch;      // version
  std::string instructions;  // "AVX512+AVX3": instructions of libtorch's operators, and of the processor
  std::string settings;      // "MKL_CBWR=COMPATIBLE"; "-": none
  std::string processor;     // its name, for people: other processors with these instructions may compute other bits
  bool operator==(const ComputingPlace&) const = default;
};

ComputingPlace computing_place(int threads);

// Returns one line: "threads 2 zero 1.0.0 libtorch 2.11.0 instructions AVX2+AVX2 settings - processor Intel(R)
// Xeon(R)".
std::string to_text(const ComputingPlace& place);
// Parses such a line; empty for another text.
std::optional<ComputingPlace> place_of_text(std::string_view text);

// text_of_places() returns the places of several ranks, each place once, with "; " between them. changed_places()
// describes the differences between two such texts for people. It is empty if there are none, or if `then` is of an
// earlier version.
std::string text_of_places(std::vector<ComputingPlace> places);
std::string changed_places(std::string_view then, std::string_view now);

// Describes the differences, except threads, which can be set, and the processor's name: "KEY THEN, and KEY NOW here".
// Empty: no difference.
std::string why_other_bits(const ComputingPlace& then, const ComputingPlace& now);

}  // namespace zero
