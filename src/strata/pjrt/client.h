// A client: a plug-in's runtime with its devices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "strata/base/json.h"
#include "strata/pjrt/plugin.h"

struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Memory;

namespace strata::pjrt {

// A value that a plug-in may refuse to give: either `value` is set, or `declined` says why not.
template <class T>
struct Declinable {
  std::optional<T> value;
  std::string declined;
};

using CreateOption = std::variant<int64_t, std::vector<int64_t>, std::string, float, bool>;

struct ClientOptions {
  // Devices wanted, 1 to 4096; 0 = the plug-in's choice. On CPU they are made to measure (more
  // than cores is fine); on GPUs the first `device_count` ones are used.
  int device_count = 0;
  // GPUs: share of the device memory for the allocator, in (0, 1]; 0 = the plug-in's choice.
  double memory_fraction = 0;
  // GPUs: whether that share is taken at once.
  std::optional<bool> preallocate = {};
  // Anything else, by the plug-in's own names.
  std::map<std::string, CreateOption> extra = {};
};

struct DeviceMemory {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;
};

// One addressable device; owned by its client and valid as long as that is.
struct Device {
  PJRT_Device* handle = nullptr;
  PJRT_Memory* memory = nullptr;  // the default one
  int id = 0;
  std::string kind;
  std::string text;  // such as "TFRT_CPU_0"
};

// Immutable after creation and thread-safe; buffers, executables and transfers keep it alive.
class Client {
 public:
  // Throws invalid_argument "pjrt.device_count" or "pjrt.memory_fraction"; "pjrt.call" when the
  // plug-in refuses.
  static std::shared_ptr<const Client> create(std::shared_ptr<const Plugin> plugin,
                                              const ClientOptions& options = {});
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  const std::shared_ptr<const Plugin>& plugin() const { return plugin_; }
  PJRT_Client* handle() const { return handle_; }
  // The plug-in's word for itself: "cpu", "cuda", "tpu".
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  // Addressable devices in the plug-in's order.
  std::span<const Device> devices() const { return devices_; }
  // Throws invalid_argument "pjrt.device_id" naming the ids there are.
  const Device& device(int id) const;
  // Options that could not apply here, each "NAME: declined: WHY".
  const std::vector<std::string>& declined() const { return declined_; }

  // Allocator statistics; the CPU plug-ins decline (see runtime's process memory instead).
  Declinable<DeviceMemory> device_memory(const Device& device) const;

  // The kinds of memory that `device` can address, the default one first: "device", and with most
  // plug-ins "pinned_host".
  std::vector<std::string> memory_kinds(const Device& device) const;

  // Platform, devices and what was declined, for `strata inspect --plugin`.
  Json json() const;
  std::string text() const;

 private:
  explicit Client(std::shared_ptr<const Plugin> plugin);
  void open(const std::map<std::string, CreateOption>& options);
  void read_devices();

  std::shared_ptr<const Plugin> plugin_;
  PJRT_Client* handle_ = nullptr;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<Device> devices_;
  std::vector<std::string> declined_;
};

}  // namespace strata::pjrt
