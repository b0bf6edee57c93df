/* SPDX-License-Identifier: MIT-0
 *
 * The interface of B-Human's CompiledNN (https://github.com/bhuman/CompiledNN) over networks that are
 * linked into the program: NeuralNetwork::CompiledNN, Model, TensorXf, CompilationSettings. C++11.
 *
 * Include <name>_compiled_nn.h (COMPILED_NN) of each network instead of CompiledNN's headers. `compile`
 * takes the name of a model file and finds the network that is called like it; no file is read, and
 * nothing is compiled. Where there is none, `valid` is false, and stderr says why.
 */
#ifndef CANNERY_COMPILED_NN_H
#define CANNERY_COMPILED_NN_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "cannery.h"

namespace cannery {

/* The networks whose headers the program includes. */
inline std::vector<const cannery_model *> &linked_models()
{
    static std::vector<const cannery_model *> all;
    return all;
}

/* Makes a network known, by an object before main. */
struct Linked {
    explicit Linked(const cannery_model *model)
    {
        linked_models().push_back(model);
    }
};

/* What a network of a model file is called by default: its name without folder and suffix, as an
 * identifier. */
inline std::string model_name(const std::string &file)
{
    const std::size_t slash = file.find_last_of("/\\");
    std::string stem = slash == std::string::npos ? file : file.substr(slash + 1);
    stem = stem.substr(0, stem.find_last_of('.'));
    std::string name;
    for (const char c : stem) {
        const bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (word) {
            name += c;
        } else if (!name.empty() && name[name.size() - 1] != '_') {
            name += '_';
        }
    }
    while (!name.empty() && name[name.size() - 1] == '_') {
        name.erase(name.size() - 1);
    }
    if (name.empty()) {
        return "net";
    }
    return name[0] >= '0' && name[0] <= '9' ? "net_" + name : name;
}

} // namespace cannery

namespace NeuralNetwork {

/* An array of several dimensions, the last varying fastest. */
template <typename T = float, std::size_t alignment = 16> class Tensor {
public:
    Tensor() : size_(0) {}

    explicit Tensor(const std::vector<unsigned int> &dimensions, std::size_t capacity = 0) : size_(0)
    {
        reshape(dimensions, capacity);
    }

    Tensor(const Tensor &other) : size_(0)
    {
        *this = other;
    }

    Tensor &operator=(const Tensor &other)
    {
        if (this != &other) {
            reshape(other.dimensions_);
            size_ = other.size_;
            std::copy(other.begin(), other.end(), begin());
        }
        return *this;
    }

    Tensor &copyFrom(const Tensor &other)
    {
        std::copy(other.begin(), other.begin() + std::min(size_, other.size_), begin());
        return *this;
    }

    void reshape(const std::vector<unsigned int> &dimensions, std::size_t capacity = 0)
    {
        dimensions_ = dimensions;
        size_ = 1;
        for (const unsigned int d : dimensions) {
            size_ *= d;
        }
        reserve(std::max(size_, capacity));
    }

    void reserve(std::size_t capacity)
    {
        const std::size_t bytes = capacity * sizeof(T) + alignment;
        if (memory_.size() < bytes) {
            memory_.resize(bytes);
        }
    }

    T *data()
    {
        return reinterpret_cast<T *>(&memory_[first()]);
    }
    const T *data() const
    {
        return reinterpret_cast<const T *>(&memory_[first()]);
    }
    T *begin()
    {
        return data();
    }
    const T *begin() const
    {
        return data();
    }
    T *end()
    {
        return data() + size_;
    }
    const T *end() const
    {
        return data() + size_;
    }

    const std::vector<unsigned int> &dims() const
    {
        return dimensions_;
    }
    unsigned int dims(std::size_t axis) const
    {
        return dimensions_[axis];
    }
    std::size_t rank() const
    {
        return dimensions_.size();
    }
    std::size_t size() const
    {
        return size_;
    }
    std::size_t capacity() const
    {
        return memory_.empty() ? 0 : (memory_.size() - alignment) / sizeof(T);
    }

    T &operator[](std::size_t index)
    {
        return data()[index];
    }
    const T &operator[](std::size_t index) const
    {
        return data()[index];
    }

    /* By one index for each dimension; those that are left out at the end are 0. */
    template <typename... Indices> T &operator()(const Indices... indices)
    {
        return data()[index({static_cast<unsigned int>(indices)...})];
    }
    template <typename... Indices> const T &operator()(const Indices... indices) const
    {
        return data()[index({static_cast<unsigned int>(indices)...})];
    }
    T &operator()(const std::vector<unsigned int> &indices)
    {
        return data()[index(indices)];
    }
    const T &operator()(const std::vector<unsigned int> &indices) const
    {
        return data()[index(indices)];
    }

private:
    std::size_t first() const
    {
        return (alignment - reinterpret_cast<std::uintptr_t>(&memory_[0]) % alignment) % alignment;
    }

    std::size_t index(const std::vector<unsigned int> &indices) const
    {
        std::size_t found = 0;
        for (std::size_t k = 0; k < dimensions_.size(); ++k) {
            found = found * dimensions_[k] + (k < indices.size() ? indices[k] : 0u);
        }
        return found;
    }

    std::vector<unsigned int> dimensions_;
    std::size_t size_;
    std::vector<unsigned char> memory_ = std::vector<unsigned char>(alignment);
};

using TensorXf = Tensor<float>;

/* There for programs that set it: the library is compiled already. */
struct CompilationSettings {
    bool useX64 = true;
    bool useSSE42 = true;
    bool useAVX2 = true;
    bool useFMA3 = true;
    bool useExpApproxInSigmoid = true;
    bool useExpApproxInTanh = true;
    bool debug = false;
};

/* The name of a model, and which inputs are bytes. */
class Model {
public:
    Model() {}

    Model(const std::string &file) : file_(file) {}

    void load(const std::string &file)
    {
        file_ = file;
        bytes_.clear();
    }

    void clear()
    {
        load("");
    }

    /* Input `index` is filled with unsigned chars: `reinterpret_cast<unsigned char *>(input(i).data())`. */
    void setInputUInt8(std::size_t index)
    {
        if (bytes_.size() <= index) {
            bytes_.resize(index + 1);
        }
        bytes_[index] = true;
    }

    bool isInputUInt8(std::size_t index) const
    {
        return index < bytes_.size() && bytes_[index];
    }

    const std::string &file() const
    {
        return file_;
    }

private:
    std::string file_;
    std::vector<bool> bytes_;
};

/* A network of the program with its tensors. */
class CompiledNN {
public:
    /* The argument was a runtime that generates code. */
    explicit CompiledNN(void * = nullptr) {}

    void compile(const std::string &file, const CompilationSettings &settings = CompilationSettings())
    {
        compile(Model(file), settings);
    }

    void compile(const Model &model, const CompilationSettings & = CompilationSettings())
    {
        network_ = nullptr;
        const std::string name = cannery::model_name(model.file());
        const cannery_model *found = nullptr;
        for (const cannery_model *one : cannery::linked_models()) {
            found = name == one->name ? one : found;
        }
        if (!found) {
            refuse(name, "is not linked", "include its <name>_compiled_nn.h");
        } else if (found->abi_version != CANNERY_ABI_VERSION) {
            refuse(name, "is of another version of Cannery", "generate it again");
        } else if (fits(*found, model, name)) {
            prepare(*found, model);
            network_ = found;
        }
    }

    bool valid() const
    {
        return network_ != nullptr;
    }

    std::size_t numOfInputs() const
    {
        return inputs_.size();
    }
    std::size_t numOfOutputs() const
    {
        return outputs_.size();
    }

    TensorXf &input(std::size_t index)
    {
        return inputs_[index];
    }
    TensorXf &output(std::size_t index)
    {
        return outputs_[index];
    }

    /* Inputs stay as they are. */
    void apply() const
    {
        if (!valid()) {
            return;
        }
        std::vector<const void *> from;
        std::vector<void *> to;
        for (std::size_t k = 0; k < inputs_.size(); ++k) {
            if (widens_[k]) {
                const unsigned char *const bytes = reinterpret_cast<const unsigned char *>(inputs_[k].data());
                std::copy(bytes, bytes + widened_[k].size(), widened_[k].begin());
            }
            from.push_back(widens_[k] ? widened_[k].data() : inputs_[k].data());
        }
        for (TensorXf &output : outputs_) {
            to.push_back(output.data());
        }
        network_->run(workspace_.data(), from.data(), to.data());
    }

private:
    static void refuse(const std::string &name, const std::string &what, const char *cure)
    {
        std::fprintf(stderr, "CompiledNN: network '%s' %s (%s)\n", name.c_str(), what.c_str(), cure);
    }

    /* Whether inputs are floats, or bytes where the program says so, and outputs floats. */
    static bool fits(const cannery_model &network, const Model &model, const std::string &name)
    {
        for (std::int32_t k = 0; k < network.input_count; ++k) {
            const cannery_tensor &tensor = network.inputs[k];
            const bool bytes = model.isInputUInt8(static_cast<std::size_t>(k));
            if (tensor.dtype != CANNERY_FLOAT32 && !(tensor.dtype == CANNERY_UINT8 && bytes)) {
                refuse(name, std::string("reads other numbers in input ") + tensor.name,
                       tensor.dtype == CANNERY_UINT8 ? "call Model::setInputUInt8" : "take its C interface");
                return false;
            }
        }
        for (std::int32_t k = 0; k < network.output_count; ++k) {
            if (network.outputs[k].dtype != CANNERY_FLOAT32) {
                refuse(name, std::string("returns integers in output ") + network.outputs[k].name,
                       "take its C interface");
                return false;
            }
        }
        return true;
    }

    /* The dimensions except the batch. */
    static std::vector<unsigned int> dimensions(const cannery_tensor &tensor)
    {
        const std::int32_t first = tensor.rank > 1 && tensor.dims[0] == 1 ? 1 : 0;
        return std::vector<unsigned int>(tensor.dims + first, tensor.dims + tensor.rank);
    }

    void prepare(const cannery_model &network, const Model &model)
    {
        inputs_.clear();
        outputs_.clear();
        widened_.clear();
        widens_.clear();
        for (std::int32_t k = 0; k < network.input_count; ++k) {
            const cannery_tensor &tensor = network.inputs[k];
            inputs_.push_back(TensorXf(dimensions(tensor)));
            std::fill(inputs_.back().begin(), inputs_.back().end(), 0.0f);
            const bool widen = model.isInputUInt8(static_cast<std::size_t>(k)) && tensor.dtype == CANNERY_FLOAT32;
            widens_.push_back(widen);
            widened_.push_back(widen ? TensorXf(dimensions(tensor)) : TensorXf());
        }
        for (std::int32_t k = 0; k < network.output_count; ++k) {
            outputs_.push_back(TensorXf(dimensions(network.outputs[k])));
        }
        const std::size_t bytes = std::max(network.workspace_bytes, static_cast<std::size_t>(1));
        workspace_ = Tensor<unsigned char, 64>(std::vector<unsigned int>(1, static_cast<unsigned int>(bytes)));
        std::fill(workspace_.begin(), workspace_.end(), static_cast<unsigned char>(0));
    }

    const cannery_model *network_ = nullptr;
    std::vector<bool> widens_;
    mutable std::vector<TensorXf> inputs_, outputs_, widened_;
    mutable Tensor<unsigned char, 64> workspace_;
};

} // namespace NeuralNetwork

#endif
