#include "zero/torch/deferred/recording.h"

#include <algorithm>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "zero/base/error/check.h"
#include "zero/torch/deferred/deferred.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {
namespace {

void delete_tape_ref(void* context) {
  delete static_cast<TapeRef*>(context);
}

bool has_generator(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) { return argument.name() == "generator"; });
}

// randn() and similar operators draw from the global generator. Their overloads with a generator draw from the
// recording's generator.
std::optional<c10::OperatorHandle> with_generator(const c10::OperatorHandle& op) {
  if (has_generator(op.schema()) || !op.hasTag(at::Tag::nondeterministic_seeded)) return std::nullopt;
  const std::string& overload = op.schema().overload_name();
  return c10::Dispatcher::singleton().findSchema(
      {op.schema().name(), overload.empty() ? "generator" : overload + "_generator"});
}

bool is_constant(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_meta();
}

at::Tensor copy_of(const at::Tensor& constant) {
  at::Tensor copy = constant.detach().clone();
  if (constant.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

// Wrapped numbers stay: they change no type of a result, and a tensor on the meta device would.
at::Tensor meta_of(const at::Tensor& tensor) {
  if (!is_constant(tensor) || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
}

// Calls visit(tensor) for each defined tensor in an argument.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  if (value.isOptionalTensorList())
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor.has_value() && tensor->defined()) visit(*tensor);
}

void refuse_constant(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  if (!is_constant(tensor)) return;
  throw ConfigError("deferred", op.schema().name(),
                    fmt::format("it writes into a tensor that has values already ({})", tensor.toString()),
                    "write into a clone() of it, or make it with torch::zeros, torch::empty or torch::full");
}

// True for an operator that reads the values of constants only, such as item(), and returns no tensor.
bool reads_constants(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& returns = op.schema().returns();
  const auto is_tensor = [](const c10::Argument& result) { return result.type()->kind() == c10::TypeKind::TensorType; };
  if (returns.empty() || std::any_of(returns.begin(), returns.end(), is_tensor)) return false;
  int num_constants = 0, num_recorded = 0;
  for (std::size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    for_each_tensor(stack[i],
                    [&](const at::Tensor& tensor) { ++(is_constant(tensor) ? num_constants : num_recorded); });
  return num_constants > 0 && num_recorded == 0;
}

}  // namespace

const TapeRef* tape_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<TapeRef>(&delete_tape_ref);
}

Recorder::Recorder(std::uint64_t seed) : tape_(std::make_shared<Tape>()) {
  tape_->seed = seed;
}

int Recorder::storage_of(const at::Tensor& tensor) {
  const auto [entry, fresh] = storages_.try_emplace(tensor.storage().unsafeGetStorageImpl(), tape_->num_storages);
  if (!fresh) return entry->second;
  ++tape_->num_storages;
  kept_.push_back(tensor.storage());
  auto* ref = new TapeRef{tape_, entry->second};
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      {nullptr, ref, &delete_tape_ref, c10::Device(c10::DeviceType::Meta)});
  return entry->second;
}

RecordedStep::TensorRef Recorder::describe(const at::Tensor& tensor, std::vector<int>& storages) {
  if (!tensor.defined()) return {};
  if (is_constant(tensor)) return {.constant = copy_of(tensor)};
  const int storage = storage_of(tensor);
  storages.push_back(storage);
  return {storage, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.scalar_type()};
}

RecordedStep::Argument Recorder::describe(const c10::IValue& value, std::vector<int>& storages) {
  if (value.isTensor()) return {{}, {describe(value.toTensor(), storages)}};
  RecordedStep::Argument argument;
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) argument.tensors.push_back(describe(tensor, storages));
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      argument.tensors.push_back(describe(tensor.value_or(at::Tensor()), storages));
  }
  if (argument.tensors.empty()) argument.value = value;
  return argument;
}

void Recorder::make_meta(c10::IValue& value) {
  bool any = false;
  for_each_tensor(value, [&](const at::Tensor& tensor) { any = any || is_constant(tensor); });
  if (!any) return;
  if (value.isTensor()) {
    value = meta_of(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(meta_of(tensor));
    value = list;
  } else {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& tensor : value.toOptionalTensorVector())
      list.push_back(tensor.has_value() ? std::optional(meta_of(*tensor)) : std::nullopt);
    value = list;
  }
}

void Recorder::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard outermost_only(kParameterKey);
  if (reads_constants(op, stack)) return op.callBoxed(&stack);
  const auto& arguments = op.schema().arguments();
  const std::size_t base = stack.size() - arguments.size();
  RecordedStep step{.op = op, .default_dtype = c10::get_default_dtype()};
  if (op.hasTag(at::Tag::nondeterministic_seeded) && !has_generator(op.schema()) && !with_generator(op)) {
    throw ConfigError("deferred", op.schema().name(),
                      "this operator draws from the global generator, and has no form that takes a generator",
                      "initialise with torch::nn::init, or with operators that take a generator");
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = stack[base + i];
    std::vector<int> storages;
    step.arguments.push_back(describe(value, storages));
    step.reads.insert(step.reads.end(), storages.begin(), storages.end());
    const bool writes = arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    if (writes) for_each_tensor(value, [&](const at::Tensor& tensor) { refuse_constant(op, tensor); });
    make_meta(value);
    if (writes) step.writes.insert(step.writes.end(), storages.begin(), storages.end());
    if (arguments[i].name() == "device") {
      // replay() runs on the CPU. A recorded tensor has the device meta: torch.arange(4, device=weight.device).
      if (value.isDevice()) step.arguments.back().value = c10::Device(c10::kCPU);
      value = c10::Device(c10::DeviceType::Meta);
    }
    if (arguments[i].name() == "pin_memory") value = c10::IValue();
  }
  try {
    // Runs below kParameterKey, and on the meta device whatever the caller's keys say.
    op.callBoxed(&stack);
  } catch (const c10::Error& error) {
    throw ConfigError(
        "deferred", op.schema().name(),
        fmt::format("this operator cannot be recorded ({})", error.what_without_backtrace()),
        "build the module without zero::deferred(), or keep operators that read values out of its constructor");
  }
  for (std::size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    std::vector<int> storages;
    auto result = describe(stack[i], storages);
    step.results.insert(step.results.end(), result.tensors.begin(), result.tensors.end());
    step.writes.insert(step.writes.end(), storages.begin(), storages.end());
  }
  if (!step.writes.empty()) tape_->steps.push_back(std::move(step));
}

namespace {

std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 14695981039346656037ull ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  // The finaliser of splitmix64: similar seeds and similar names give unrelated generators.
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9ull;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebull;
  return hash ^ (hash >> 31);
}

bool accesses(const std::vector<int>& storages, const std::vector<bool>& wanted) {
  return std::any_of(storages.begin(), storages.end(),
                     [&](int storage) { return wanted[static_cast<std::size_t>(storage)]; });
}

// Sets torch's default type, and restores it. zeros(), arange() / 8 and others have that type if none is given.
class DefaultType {
 public:
  explicit DefaultType(caffe2::TypeMeta type) : usual_(c10::get_default_dtype()) { set(type); }
  ~DefaultType() { set(usual_); }
  DefaultType(const DefaultType&) = delete;
  DefaultType& operator=(const DefaultType&) = delete;

 private:
  static void set(caffe2::TypeMeta type) {
    if (c10::get_default_dtype() != type) c10::set_default_dtype(type);
  }
  caffe2::TypeMeta usual_;
};

class Replay {
 public:
  Replay(const Tape& tape, std::uint64_t seed)
      : storages_(static_cast<std::size_t>(tape.num_storages)),
        generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  void run(const RecordedStep& step) {
    const DefaultType recorded_type(step.default_dtype);
    torch::jit::Stack stack;
    const auto& recorded = step.op.schema().arguments();
    const std::optional<c10::OperatorHandle> seeded = with_generator(step.op);
    // The overload with a generator has the same arguments by name, and one more argument.
    for (const c10::Argument& formal : (seeded ? *seeded : step.op).schema().arguments()) {
      const auto same = std::find_if(recorded.begin(), recorded.end(),
                                     [&](const c10::Argument& a) { return a.name() == formal.name(); });
      stack.push_back(same == recorded.end()
                          ? c10::IValue(generator_)
                          : argument(formal, step.arguments[static_cast<std::size_t>(same - recorded.begin())]));
    }
    (seeded ? *seeded : step.op).callBoxed(&stack);
    std::size_t next = 0;
    for (const c10::IValue& value : stack) {
      if (value.isTensor()) keep(step.results.at(next++), value.toTensor());
      if (!value.isTensorList()) continue;
      for (const at::Tensor& tensor : value.toTensorVector()) keep(step.results.at(next++), tensor);
    }
  }

  at::Tensor tensor(const RecordedStep::TensorRef& ref) const {
    if (ref.constant.defined()) return copy_of(ref.constant);
    if (ref.storage < 0) return {};
    const c10::Storage& storage = storages_[static_cast<std::size_t>(ref.storage)];
    ZERO_CHECK(storage, "a recorded tensor is used before it is made");
    at::Tensor result = at::empty({0}, at::TensorOptions().dtype(ref.dtype));
    return result.set_(storage, ref.offset, ref.sizes, ref.strides);
  }

 private:
  void keep(const RecordedStep::TensorRef& ref, const at::Tensor& tensor) {
    if (ref.storage >= 0) storages_[static_cast<std::size_t>(ref.storage)] = tensor.storage();
  }

  c10::IValue argument(const c10::Argument& formal, const RecordedStep::Argument& recorded) const {
    if (formal.type()->kind() == c10::TypeKind::OptionalType && recorded.tensors.empty() && recorded.value.isNone() &&
        formal.name() == "generator") {
      return generator_;
    }
    if (recorded.tensors.empty()) return recorded.value;
    const c10::TypePtr type = formal.type();
    if (type->kind() != c10::TypeKind::ListType) return tensor(recorded.tensors.front());
    if (type->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& ref : recorded.tensors)
        list.push_back(ref.storage < 0 && !ref.constant.defined() ? std::nullopt : std::optional(tensor(ref)));
      return list;
    }
    c10::List<at::Tensor> list;
    for (const auto& ref : recorded.tensors) list.push_back(tensor(ref));
    return list;
  }

  std::vector<c10::Storage> storages_;
  at::Generator generator_;
};

}  // namespace

at::Tensor replay(const TapeRef& ref, const at::Tensor& tensor, const std::string& name) {
  const Tape& tape = *ref.tape;
  // Goes from the last step back. A step is needed if it writes a wanted storage; then the storages that it reads are
  // also wanted.
  std::vector<bool> wanted(static_cast<std::size_t>(tape.num_storages), false);
  wanted[static_cast<std::size_t>(ref.storage)] = true;
  std::vector<const RecordedStep*> needed;
  for (auto step = tape.steps.rbegin(); step != tape.steps.rend(); ++step) {
    if (!accesses(step->writes, wanted)) continue;
    needed.push_back(&*step);
    for (int storage : step->reads) wanted[static_cast<std::size_t>(storage)] = true;
  }
  c10::AutoGradMode no_gradients(false);
  Replay replay(tape, seed_of(tape.seed, name));
  for (auto step = needed.rbegin(); step != needed.rend(); ++step) replay.run(**step);
  return replay.tensor(
      {ref.storage, tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.scalar_type()});
}

// ---- the public face ----------------------------------------------------------------------------------------------

namespace detail {

struct RecordingScope::State {
  explicit State(std::uint64_t seed) : recorder(seed), takes(recorder) {}
  Recorder recorder;
  TakeOperators takes;
};

RecordingScope::RecordingScope(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}
RecordingScope::~RecordingScope() = default;

}  // namespace detail

bool is_deferred(const torch::Tensor& tensor) {
  return tape_of(tensor) != nullptr;
}

torch::Tensor build_deferred(const torch::Tensor& tensor, const std::string& name) {
  const TapeRef* ref = tape_of(tensor);
  ZERO_CHECK(ref != nullptr, "{} was not made under deferred()", name);
  return replay(*ref, tensor, name);
}

}  // namespace zero
