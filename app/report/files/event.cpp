#include "app/report/files/event.h"

#include <bit>

#include "zero/base/files/crc32c.h"

namespace zero {
namespace {

constexpr std::uint32_t kMaskDelta = 0xA282EAD8U;

// The fields in use, by message, with protobuf's numbers.
enum class EventField : std::uint32_t { kTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSession = 7 };
enum class SummaryField : std::uint32_t { kValue = 1 };
enum class ValueField : std::uint32_t { kTag = 1, kScalar = 2, kTensor = 8, kMetadata = 9 };
enum class MetadataField : std::uint32_t { kPlugin = 1 };
enum class PluginField : std::uint32_t { kName = 1 };
enum class TensorField : std::uint32_t { kType = 1, kShape = 2, kString = 8 };
enum class SessionField : std::uint32_t { kStatus = 1 };
constexpr std::uint64_t kStringType = 7;    // DT_STRING
constexpr std::uint64_t kSessionStart = 1;  // SessionLog.START

enum class Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename Unsigned>
void add_fixed(std::string& out, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof value; ++byte) out += static_cast<char>((value >> (8 * byte)) & 0xFFU);
}

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

template <typename Field>
class Message {
 public:
  Message& varint(Field field, std::uint64_t value) {
    key(field, Wire::kVarint);
    add_varint(bytes_, value);
    return *this;
  }
  Message& number(Field field, double value) {
    key(field, Wire::kFixed64);
    add_fixed(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(Field field, float value) {
    key(field, Wire::kFixed32);
    add_fixed(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  Message& bytes(Field field, std::string_view value) {
    key(field, Wire::kBytes);
    add_varint(bytes_, value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& text() const { return bytes_; }

 private:
  void key(Field field, Wire wire) {
    add_varint(bytes_, static_cast<std::uint32_t>(field) << 3U | static_cast<std::uint32_t>(wire));
  }
  std::string bytes_;
};

using EventMessage = Message<EventField>;

EventMessage event_at(const EventTime& at) {
  EventMessage event;
  event.number(EventField::kTime, at.time).varint(EventField::kStep, static_cast<std::uint64_t>(at.step));
  return event;
}

}  // namespace

std::string version_event(double time) {
  return EventMessage().number(EventField::kTime, time).bytes(EventField::kVersion, "brain.Event:2").text();
}

std::string scalars_event(const EventTime& at, std::span<const Scalar> scalars) {
  Message<SummaryField> summary;
  for (const auto& [tag, value] : scalars) {
    Message<ValueField> one;
    one.bytes(ValueField::kTag, tag).number(ValueField::kScalar, static_cast<float>(value));
    summary.bytes(SummaryField::kValue, one.text());
  }
  return event_at(at).bytes(EventField::kSummary, summary.text()).text();
}

std::string text_event(const EventTime& at, std::string_view tag, std::string_view markdown) {
  Message<PluginField> plugin;
  plugin.bytes(PluginField::kName, "text");
  Message<MetadataField> metadata;
  metadata.bytes(MetadataField::kPlugin, plugin.text());
  Message<TensorField> tensor;  // one string, so a shape without dimensions
  tensor.varint(TensorField::kType, kStringType).bytes(TensorField::kShape, "").bytes(TensorField::kString, markdown);
  Message<ValueField> value;
  value.bytes(ValueField::kTag, tag)
      .bytes(ValueField::kTensor, tensor.text())
      .bytes(ValueField::kMetadata, metadata.text());
  Message<SummaryField> summary;
  summary.bytes(SummaryField::kValue, value.text());
  return event_at(at).bytes(EventField::kSummary, summary.text()).text();
}

std::string start_event(const EventTime& at) {
  Message<SessionField> session;
  session.varint(SessionField::kStatus, kSessionStart);
  return event_at(at).bytes(EventField::kSession, session.text()).text();
}

std::string framed(std::string_view message) {
  std::string record;
  record.reserve(message.size() + 16);
  add_fixed(record, static_cast<std::uint64_t>(message.size()));
  add_fixed(record, masked_crc32c(record));
  record += message;
  add_fixed(record, masked_crc32c(message));
  return record;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + kMaskDelta;
}

}  // namespace zero
