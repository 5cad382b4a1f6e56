// AttachedValues: whether an attached model has complete values, and whether this process may use them.
//
//   values.require();         // throws if there are no values, or in a forked process
//   values.begin_load();      // until end_load() there are no values: if a load fails, nobody uses the rest
//   values.end_load();
//
// Local, except the first require() on a rank whose values are on other ranks: it receives them.
#pragma once

#include "zero/base/process/fork_mark.h"
#include "zero/engine/rank_role.h"

namespace zero {

class AttachedValues {
 public:
  // `role` must outlive the object. `rank`: of the run. `awaits_load`: there are no values before the first load.
  AttachedValues(RankRole& role, int rank, bool awaits_load)
      : role_(role), rank_(rank), complete_(role.updated_elsewhere() || !awaits_load) {}

  // False before the first load, if one is awaited, and after a load that failed. Always true if other ranks have the
  // values.
  bool complete() const { return complete_; }
  // Throws ConfigError if there are no values, and in a process that was forked since attach().
  void require();
  void begin_load() { complete_ = false; }
  void end_load() { complete_ = true; }

  // True in a process that was forked since attach().
  bool in_child() const { return made_here_.in_child(); }
  void refuse_in_child() const { made_here_.refuse_in_child(rank_); }

 private:
  RankRole& role_;
  int rank_;
  bool complete_;
  ForkMark made_here_;
};

}  // namespace zero
