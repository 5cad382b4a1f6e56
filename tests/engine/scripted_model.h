// ScriptedModel: a model without tensors. It accesses the engine's units in a scripted order, and reads parameters at
// the addresses that the observer received. It computes gradients from parameters and from (step, micro-batch, rank),
// so reading a stale or foreign byte changes the bits.
//
// With ZERO_TEST_DEVICE=recorded, a model without a device has its own RecordedDevice, whose work runs late. Every test
// of an engine then looks for races, and must have the same bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/error/error.h"
#include "zero/device/host_device.h"
#include "zero/engine/rank_engine.h"

#include "tests/support/device/recorded_device.h"
#include "tests/support/fp32_states.h"

namespace zero {

inline float noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b * 0xbf58476d1ce4e5b9ull + c * 0x94d049bb133111ebull + 1;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  return static_cast<float>(static_cast<std::int32_t>(x & 0xffffff) - 0x800000) / static_cast<float>(0x800000);
}

inline float load_element(const std::byte* data, DType dtype, std::int64_t index) {
  return with_type_of(
      dtype, [&]<typename T>(std::type_identity<T>) { return to_float(reinterpret_cast<const T*>(data)[index]); });
}

inline void store_element(std::byte* data, DType dtype, std::int64_t index, float value) {
  with_type_of(dtype,
               [&]<typename T>(std::type_identity<T>) { reinterpret_cast<T*>(data)[index] = rounded_to<T>(value); });
}

// wte is its own unit. Three blocks have a matrix and a bias each, the middle one also a frozen table. All other
// parameters are in root.
inline std::vector<ParamSpec> small_specs(DType dtype = DType::kFloat32, bool with_frozen = true) {
  std::vector<ParamSpec> specs{{.name = "wte", .shape = {11, 5}, .dtype = dtype, .own_unit = true}};
  for (int block = 0; block < 3; ++block) {
    const std::string name = "h." + std::to_string(block) + ".";
    specs.push_back({.name = name + "weight", .shape = {7, 5 + block}, .dtype = dtype});
    specs.push_back({.name = name + "bias", .shape = {7}, .dtype = dtype});
    if (block == 1 && with_frozen) {
      specs.push_back({.name = name + "table", .shape = {40}, .dtype = dtype, .trainable = false});
    }
  }
  specs.push_back({.name = "ln_f", .shape = {9}, .dtype = dtype});
  return specs;
}

// fp32 states of an optimizer.
inline std::vector<StateSpec> moments(int count) {
  return fp32_states(count).states;
}

class ScriptedModel final : public UnitObserver {
 public:
  // Gradients are about 1. The default loss scale is one with which such gradients do not overflow in fp16.
  ScriptedModel(Communicator& comm, std::vector<ParamSpec> specs, AttachOptions options, const EngineHost& host = {})
      : specs_(std::move(specs)),
        units_(units_of(specs_, comm.world(), options)),
        data_(units_.size(), nullptr),
        recorded_(host.device == nullptr && is_recorded() ? std::make_unique<RecordedDevice>(kLate) : nullptr),
        device_(device_of(host)),
        rank_(comm.rank()) {
    if (!options.loss_scale && !specs_.empty() && specs_.front().dtype == DType::kFloat16)
      options.loss_scale = LossScaleOptions{.value = 256};
    EngineHost with_device = host;
    if (recorded_) with_device.device = recorded_.get();
    engine_ = std::make_unique<RankEngine>(comm, specs_, units_, options, *this, with_device);
    for (const Unit& unit : units_) {
      std::vector<float> whole(static_cast<std::size_t>(unit.numel), 0.0F);
      for (const Slice& slice : unit.slices) {
        for (std::int64_t i = 0; i < slice.numel; ++i) {
          whole[static_cast<std::size_t>(slice.offset + i)] =
              noise(7, static_cast<std::uint64_t>(slice.param), static_cast<std::uint64_t>(i));
        }
      }
      engine_->states().load(unit.index, reinterpret_cast<const std::byte*>(whole.data()), DType::kFloat32);
    }
  }

  void bind(int unit, std::byte* data) override { data_[static_cast<std::size_t>(unit)] = data; }

  RankEngine& engine() { return *engine_; }
  const std::vector<Unit>& units() const { return units_; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const std::byte* bound(int unit) const { return data_[static_cast<std::size_t>(unit)]; }
  int unit_named(const std::string& name) const {
    for (const Unit& unit : units_) {
      if (unit.name == name) return unit.index;
    }
    throw Error("no unit " + name);
  }
  int param_named(const std::string& name) const {
    for (std::size_t param = 0; param < specs_.size(); ++param) {
      if (specs_[param].name == name) return static_cast<int>(param);
    }
    throw Error("no parameter " + name);
  }
  std::vector<int> all_units() const {
    std::vector<int> order;
    for (const Unit& unit : units_) order.push_back(unit.index);
    return order;
  }

  // Replaces the gradient of an element, for example by infinity.
  std::function<float(int param, std::int64_t element, float value)> edit = [](int, std::int64_t, float value) {
    return value;
  };
  std::function<bool(int param)> has_gradient = [](int) { return true; };
  // The work of a unit's operators in a pass, besides reading parameters.
  std::function<void()> compute = [] {};

  void forward(const std::vector<int>& order) {
    for (const int unit : order) {
      const GatheredUnit in_use = engine_->use(unit, Use::kForward);
      read(in_use);
      compute();
    }
  }

  // Reads all units outside training.
  void evaluate() {
    for (const int unit : all_units()) {
      const GatheredUnit in_use = engine_->use(unit, Use::kUntraced);
      read(in_use);
    }
  }

  void backward(const std::vector<int>& forward_order, int step, int micro) {
    loss_scale_ = static_cast<float>(engine_->scale_loss());
    for (auto unit = forward_order.rbegin(); unit != forward_order.rend(); ++unit) {
      std::vector<Gradient> gradients;
      const Unit& description = units_[static_cast<std::size_t>(*unit)];
      {
        const GatheredUnit in_use = engine_->use(*unit, Use::kBackward);
        compute();
        for (const Slice& slice : description.slices) gradients.push_back(gradient_of(in_use, slice, step, micro));
      }
      for (std::size_t i = description.trainable ? gradients.size() : 0; i-- > 0;) {
        const int param = description.slices[i].param;
        if (has_gradient(param)) engine_->add_gradient(param, gradients[i].data());
      }
      if (!device_.host_readable()) std::ranges::move(gradients, std::back_inserter(kept_));
    }
  }

  // Computes the gradients of `rank`, whatever the engine's communicator says.
  void compute_as(int rank) { rank_ = rank; }

  // Trains one step over `order`, with a learning rate of 0.01.
  StepReport train(int step, int accumulate, const std::vector<int>& order) {
    for (int micro = 0; micro < accumulate; ++micro) {
      forward(order);
      backward(order, step, micro);
    }
    return engine_->step(0.01);
  }
  StepReport train(int step, int accumulate = 1) { return train(step, accumulate, all_units()); }

  // All parameters in full precision, in the order of units. Collective.
  std::vector<std::uint32_t> weight_bits() {
    std::vector<std::uint32_t> bits;
    for (const Unit& unit : units_) {
      engine_->states().read_full_precision(unit.index, [&](std::span<const float> whole) {
        for (const Slice& slice : unit.slices)
          for (const float value :
               whole.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.numel)))
            bits.push_back(std::bit_cast<std::uint32_t>(value));
      });
    }
    return bits;
  }
  // The values of one parameter. Collective.
  std::vector<float> weights_of(const std::string& name) {
    const int param = param_named(name);
    for (const Unit& unit : units_) {
      for (const Slice& slice : unit.slices) {
        if (slice.param != param) continue;
        std::vector<float> values;
        engine_->states().read_full_precision(unit.index, [&](std::span<const float> whole) {
          values.assign(whole.begin() + slice.offset, whole.begin() + slice.offset + slice.numel);
        });
        return values;
      }
    }
    return {};
  }

  // A checksum of every value that forward passes read, in order.
  double checksum() const { return checksum_; }
  // Adds states that a test reads to the checksum, so they are compared.
  void add_to_checksum(double value) { checksum_ = checksum_ * 0.999 + value; }

 private:
  static inline const RecordedDevice::Options kLate{.late = 1};
  static bool is_recorded() {
    const char* const name = std::getenv("ZERO_TEST_DEVICE");
    return name != nullptr && std::string_view(name) == "recorded";
  }

  Device& device_of(const EngineHost& host) {
    if (host.device != nullptr) return *host.device;
    if (recorded_) return *recorded_;
    return HostDevice::instance();
  }

  // Memory of the device, if the device has its own memory.
  struct Gradient {
    std::vector<std::byte> on_host;
    Allocation on_device;
    std::byte* data() { return on_device ? on_device.data() : on_host.data(); }
  };

  // The bytes that an operator reads at `data` on the device. If the host can act as the operator, as on a
  // RecordedDevice, it reads them in place. Otherwise it reads a copy.
  const std::byte* seen(std::span<const std::byte> data, const char* who) {
    const Access access = reads(data);
    device_.touches(Lane::kCompute, {&access, 1}, who);
    if (device_.host_readable() || dynamic_cast<RecordedDevice*>(&device_) != nullptr) return data.data();
    copied_.resize(data.size());
    device_.copy(Lane::kCompute, copied_, data);
    device_.join(device_.mark(Lane::kCompute));
    return copied_.data();
  }
  void write(std::span<std::byte> data, std::span<const std::byte> values) {
    if (device_.host_readable() || dynamic_cast<RecordedDevice*>(&device_) != nullptr) {
      std::ranges::copy(values, data.begin());
    } else {
      device_.copy(Lane::kCompute, data, values);
      device_.join(device_.mark(Lane::kCompute));  // `values` may be freed
    }
  }

  const std::byte* read(const GatheredUnit& in_use) {
    const Unit& description = units_[static_cast<std::size_t>(in_use.unit())];
    const std::byte* data = bound(in_use.unit());
    const std::size_t bytes = static_cast<std::size_t>(description.numel) * size_of(description.dtype);
    if (data == nullptr || data != in_use.data())
      throw Error("unit " + description.name + " is not where the observer was told");
    data = seen({data, bytes}, "an operator of the model");
    for (const Slice& slice : description.slices) {
      for (std::int64_t i = 0; i < slice.numel; ++i) {
        checksum_ = checksum_ * 0.999 + load_element(data, description.dtype, slice.offset + i);
      }
    }
    return data;
  }

  Gradient gradient_of(const GatheredUnit& in_use, const Slice& slice, int step, int micro) {
    const Unit& unit = units_[static_cast<std::size_t>(in_use.unit())];
    const std::size_t bytes = static_cast<std::size_t>(slice.numel) * size_of(unit.dtype);
    Gradient gradient;
    if (device_.host_readable()) {
      gradient.on_host.resize(bytes);
    } else {
      gradient.on_device = device_.allocate(bytes);
    }
    const std::byte* const data = read(in_use);
    if (!device_.host_readable()) {
      const std::size_t unit_bytes = static_cast<std::size_t>(unit.numel) * size_of(unit.dtype);
      const Access both[] = {reads(std::span(bound(unit.index), unit_bytes)),
                             writes(std::span(gradient.data(), bytes))};
      device_.touches(Lane::kCompute, both, "an operator's backward");
    }
    const auto moment = static_cast<std::uint64_t>((step * 16 + micro) * 64 + rank_);
    std::vector<std::byte> values(bytes);
    for (std::int64_t i = 0; i < slice.numel; ++i) {
      const float here = load_element(data, unit.dtype, slice.offset + i);
      const float value =
          0.5F * here + noise(moment, static_cast<std::uint64_t>(slice.param), static_cast<std::uint64_t>(i));
      store_element(values.data(), unit.dtype, i, loss_scale_ * edit(slice.param, i, value));
    }
    write({gradient.data(), bytes}, values);
    return gradient;
  }

  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::vector<std::byte*> data_;
  std::unique_ptr<RecordedDevice> recorded_;
  Device& device_;
  int rank_ = 0;
  std::vector<std::byte> copied_;
  double checksum_ = 0;
  float loss_scale_ = 1;
  std::vector<Gradient> kept_;  // gradients whose copies are queued; kept until the engine ends, which waits
  std::unique_ptr<RankEngine> engine_;
};

}  // namespace zero
