// HeldEngine: what an engine of Python holds: an Engine or a PipelineEngine. It keeps the world alive.
//
//   class PythonEngine : public HeldEngine<Engine> { ... };
//
// Destruction is Local: Python's collector may destroy an engine on one rank only. Only close() is Collective.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <torch/csrc/utils/pybind.h>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"
#include "zero/base/process/thread_gate.h"
#include "zero/checkpoint/running_save.h"
#include "zero/comm/transport/world.h"
#include "zero/engine/options/options.h"

namespace zero::python {

template <typename Attachment>
class HeldEngine {
 public:
  HeldEngine(std::shared_ptr<World> world, AttachOptions options)
      : world_(std::move(world)), options_(std::move(options)) {}
  // Local. Abandons the engine if it is still attached: its parameters have no values afterwards.
  ~HeldEngine() {
    if (attachment_) abandon();
  }
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;

  // Throws ConfigError after close().
  Attachment& attachment() {
    if (!attachment_) throw ConfigError("engine", "closed", "this engine has ended", "attach the model again");
    return *attachment_;
  }
  bool closed() const { return !attachment_.has_value(); }

  // Collective; between steps, while no save is running. `begin` returns a save of this mode. With kSync the checkpoint
  // is durable afterwards. These three throw as RunningSave does. A save that failed is over.
  void save(SaveMode mode, const std::function<std::unique_ptr<RunningSave>()>& begin) {
    ZERO_CHECK(save_ == nullptr, "a save begins while another one is running");
    save_ = begin();
    if (mode == SaveMode::kSync) wait_for_save();
  }
  // Collective. Returns whether no save is running any more.
  bool poll_save() {
    return advance([](RunningSave& save) { return save.poll(); });
  }
  // Collective. Returns when no save is running any more.
  void wait_for_save() {
    advance([](RunningSave& save) {
      save.wait();
      return true;
    });
  }

  // Collective. `give_back`: the parameters get their values back. Without it they stay empty. A save that is running
  // is not published.
  void close(bool give_back) {
    save_ = nullptr;
    if (!attachment_) return;
    // An exception in close() leaves an engine that only abandon() can end.
    Attachment ending = std::move(*attachment_);
    attachment_.reset();
    if (!give_back) ending.abandon();
    ending.detach();
  }

  // Local. Ends the engine on this rank only. An engine that is destroyed while an exception unwinds waits for nobody,
  // and leaves its parameters empty. A save that is running is not published.
  void abandon() {
    struct Unwinding {};
    save_ = nullptr;
    if (!attachment_) return;
    ZERO_LOG(info, "an engine is destroyed without close(): its parameters have no values");
    try {
      const Attachment dying = std::move(*attachment_);
      attachment_.reset();
      throw Unwinding{};
    } catch (const Unwinding&) {
    }
  }

  World& world() { return *world_; }
  const AttachOptions& options() const { return options_; }

 protected:
  void hold(Attachment attachment) { attachment_.emplace(std::move(attachment)); }

 private:
  bool advance(const std::function<bool(RunningSave&)>& ends) {
    if (save_ == nullptr) return true;
    const ThreadGate::Entry entry(world().gate(), world().rank());
    try {
      if (!ends(*save_)) return false;
    } catch (const IoError&) {
      save_ = nullptr;
      throw;
    }
    save_ = nullptr;
    return true;
  }

  std::shared_ptr<World> world_;
  AttachOptions options_;  // as given
  std::optional<Attachment> attachment_;
  std::unique_ptr<RunningSave> save_;  // null: no save is running
};

}  // namespace zero::python
