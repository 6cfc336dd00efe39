#include "strata/pjrt/client.h"

#include <fmt/format.h>

#include <numeric>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/pjrt/c_api.h"

namespace strata::pjrt {
namespace {

// The bytes behind `named` belong to `value` and `name`.
PJRT_NamedValue named_value(const std::string& name, const CreateOption& value) {
  auto named = zeroed<PJRT_NamedValue>();
  named.name = name.data();
  named.name_size = name.size();
  named.value_size = 1;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    named.type = PJRT_NamedValue_kInt64;
    named.int64_value = *integer;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    named.type = PJRT_NamedValue_kInt64List;
    named.int64_array_value = list->data();
    named.value_size = list->size();
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    named.type = PJRT_NamedValue_kString;
    named.string_value = text->data();
    named.value_size = text->size();
  } else if (const auto* number = std::get_if<float>(&value)) {
    named.type = PJRT_NamedValue_kFloat;
    named.float_value = *number;
  } else {
    named.type = PJRT_NamedValue_kBool;
    named.bool_value = std::get<bool>(value);
  }
  return named;
}

void check_options(const ClientOptions& options) {
  if (options.device_count < 0 || options.device_count > 4096) {
    fail({.id = "pjrt.device_count",
          .where = "client option device_count",
          .expected = "1 to 4096, or 0 for the plug-in's choice",
          .got = std::to_string(options.device_count)});
  }
  if (!(options.memory_fraction >= 0 && options.memory_fraction <= 1)) {
    fail({.id = "pjrt.memory_fraction",
          .where = "client option memory_fraction",
          .expected = "a share above 0 and up to 1, or 0 for the plug-in's choice",
          .got = std::to_string(options.memory_fraction)});
  }
}

// The create options as this platform spells them; what does not apply goes to `declined`.
std::map<std::string, CreateOption> spell_options(Platform platform, const ClientOptions& options,
                                                  std::vector<std::string>& declined) {
  std::map<std::string, CreateOption> named = options.extra;
  bool gpu = platform == Platform::cuda || platform == Platform::rocm;
  std::string here = "the " + std::string(name_of(platform)) + " plug-in";
  if (options.device_count > 0 && platform == Platform::cpu) {
    named["cpu_device_count"] = int64_t{options.device_count};
  } else if (options.device_count > 0 && gpu) {
    std::vector<int64_t> ids(static_cast<size_t>(options.device_count));
    std::iota(ids.begin(), ids.end(), 0);
    named["visible_devices"] = ids;
  } else if (options.device_count > 0) {
    declined.push_back("device_count: declined: " + here + " takes no number of devices");
  }
  if (options.memory_fraction > 0 && gpu) {
    named["memory_fraction"] = static_cast<float>(options.memory_fraction);
  } else if (options.memory_fraction > 0) {
    declined.push_back("memory_fraction: declined: " + here + " has no allocator of its own");
  }
  if (options.preallocate && gpu) {
    named["preallocate"] = *options.preallocate;
  } else if (options.preallocate) {
    declined.push_back("preallocate: declined: " + here + " has no allocator of its own");
  }
  return named;
}

}  // namespace

std::shared_ptr<const Client> Client::create(std::shared_ptr<const Plugin> plugin,
                                             const ClientOptions& options) {
  check_options(options);
  std::shared_ptr<Client> client(new Client(std::move(plugin)));
  client->open(spell_options(client->plugin_->platform(), options, client->declined_));
  client->read_devices();
  return client;
}

Client::Client(std::shared_ptr<const Plugin> plugin) : plugin_(std::move(plugin)) {}

Client::~Client() {
  if (handle_ == nullptr) return;
  auto args = zeroed<PJRT_Client_Destroy_Args>();
  args.client = handle_;
  call_quietly(*plugin_, &PJRT_Api::PJRT_Client_Destroy, args);
}

void Client::open(const std::map<std::string, CreateOption>& options) {
  std::vector<PJRT_NamedValue> named;
  for (const auto& option : options) named.push_back(named_value(option.first, option.second));
  auto args = zeroed<PJRT_Client_Create_Args>();
  args.create_options = named.data();
  args.num_options = named.size();
  call(*plugin_, &PJRT_Api::PJRT_Client_Create, args);
  handle_ = args.client;

  auto name = zeroed<PJRT_Client_PlatformName_Args>();
  name.client = handle_;
  call(*plugin_, &PJRT_Api::PJRT_Client_PlatformName, name);
  platform_name_.assign(name.platform_name, name.platform_name_size);
  auto version = zeroed<PJRT_Client_PlatformVersion_Args>();
  version.client = handle_;
  call(*plugin_, &PJRT_Api::PJRT_Client_PlatformVersion, version);
  platform_version_.assign(version.platform_version, version.platform_version_size);
}

void Client::read_devices() {
  auto list = zeroed<PJRT_Client_AddressableDevices_Args>();
  list.client = handle_;
  call(*plugin_, &PJRT_Api::PJRT_Client_AddressableDevices, list);
  for (size_t i = 0; i < list.num_addressable_devices; ++i) {
    Device device;
    device.handle = list.addressable_devices[i];
    auto description = zeroed<PJRT_Device_GetDescription_Args>();
    description.device = device.handle;
    call(*plugin_, &PJRT_Api::PJRT_Device_GetDescription, description);
    auto id = zeroed<PJRT_DeviceDescription_Id_Args>();
    id.device_description = description.device_description;
    call(*plugin_, &PJRT_Api::PJRT_DeviceDescription_Id, id);
    device.id = id.id;
    auto kind = zeroed<PJRT_DeviceDescription_Kind_Args>();
    kind.device_description = description.device_description;
    call(*plugin_, &PJRT_Api::PJRT_DeviceDescription_Kind, kind);
    device.kind.assign(kind.device_kind, kind.device_kind_size);
    auto text = zeroed<PJRT_DeviceDescription_ToString_Args>();
    text.device_description = description.device_description;
    call(*plugin_, &PJRT_Api::PJRT_DeviceDescription_ToString, text);
    device.text.assign(text.to_string, text.to_string_size);
    auto memory = zeroed<PJRT_Device_DefaultMemory_Args>();
    memory.device = device.handle;
    call(*plugin_, &PJRT_Api::PJRT_Device_DefaultMemory, memory);
    device.memory = memory.memory;
    devices_.push_back(std::move(device));
  }
}

const Device& Client::device(int id) const {
  for (const Device& device : devices_) {
    if (device.id == id) return device;
  }
  std::vector<int64_t> ids;
  for (const Device& device : devices_) ids.push_back(device.id);
  fail({.id = "pjrt.device_id",
        .where = "client of " + plugin_->name(),
        .expected = "the id of one of its devices, " + list_text(ids),
        .got = std::to_string(id)});
}

Declinable<DeviceMemory> Client::device_memory(const Device& device) const {
  auto args = zeroed<PJRT_Device_MemoryStats_Args>();
  args.device = device.handle;
  try {
    call(*plugin_, &PJRT_Api::PJRT_Device_MemoryStats, args);
  } catch (const Error& e) {
    if (e.code() != Code::unimplemented) throw;
    return {.value = {}, .declined = "declined: " + e.message()};
  }
  DeviceMemory memory;
  memory.bytes_in_use = args.bytes_in_use;
  if (args.peak_bytes_in_use_is_set) memory.peak_bytes_in_use = args.peak_bytes_in_use;
  if (args.bytes_limit_is_set) memory.bytes_limit = args.bytes_limit;
  return {.value = memory, .declined = {}};
}

std::vector<std::string> Client::memory_kinds(const Device& device) const {
  auto args = zeroed<PJRT_Device_AddressableMemories_Args>();
  args.device = device.handle;
  call(*plugin_, &PJRT_Api::PJRT_Device_AddressableMemories, args);
  std::vector<std::string> kinds;
  for (size_t i = 0; i < args.num_memories; ++i) {
    auto kind = zeroed<PJRT_Memory_Kind_Args>();
    kind.memory = args.memories[i];
    call(*plugin_, &PJRT_Api::PJRT_Memory_Kind, kind);
    auto at = kind.memory == device.memory ? kinds.begin() : kinds.end();
    kinds.emplace(at, kind.kind, kind.kind_size);
  }
  return kinds;
}

Json Client::json() const {
  Json list = Json::array();
  for (const Device& device : devices_) {
    Json entry = {{"id", device.id},
                  {"kind", device.kind},
                  {"name", device.text},
                  {"memory_kinds", memory_kinds(device)}};
    Declinable<DeviceMemory> memory = device_memory(device);
    if (memory.value) {
      entry["bytes_in_use"] = memory.value->bytes_in_use;
      if (memory.value->bytes_limit) entry["bytes_limit"] = *memory.value->bytes_limit;
    } else {
      entry["memory"] = memory.declined;
    }
    list.push_back(std::move(entry));
  }
  return {{"platform", platform_name_},
          {"platform_version", platform_version_},
          {"devices", std::move(list)},
          {"declined", declined_}};
}

std::string Client::text() const {
  std::string out = fmt::format("platform           {} ({})\n", platform_name_, platform_version_);
  for (const Device& device : devices_) {
    Declinable<DeviceMemory> memory = device_memory(device);
    std::string use = memory.declined;
    if (memory.value) {
      use = bytes_text(static_cast<uint64_t>(memory.value->bytes_in_use)) + " in use";
      if (memory.value->bytes_limit) {
        use += " of " + bytes_text(static_cast<uint64_t>(*memory.value->bytes_limit));
      }
    }
    out += fmt::format("device {:<11} {} ({}), memory {}: {}\n", device.id, device.text,
                       device.kind, join(memory_kinds(device), ", "), use);
  }
  for (const std::string& line : declined_) out += line + "\n";
  return out;
}

}  // namespace strata::pjrt
