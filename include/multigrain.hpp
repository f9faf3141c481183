/*
 * multigrain.hpp - multigrain.h for C++17 and later. Header-only and thin: each call is one of the C interface,
 * whose rules hold here (what is shared, what consistency promises, what orders accesses).
 *
 * Errors are exceptions: mg::error (a std::system_error of the category "multigrain", whose codes are those of
 * enum mg_error), and std::bad_alloc where there is no memory. As in the standard library, a destructor that
 * cannot do its work (unlock what is not locked) ends the program.
 *
 * mutex, shared_mutex, condition_variable, semaphore, barrier and once_flag lie in shared memory, by themselves
 * (mg::create) or as members of shared objects, and are known to the job by their address: elsewhere, as a
 * global for one, their calls throw MG_ENOTSHARED. To call them fetches nothing of the memory they lie in.
 * Leave them as they began (unlocked, without units) before they are destroyed.
 *
 * What is constructed in shared memory must mean the same on every node: numbers, pointers to shared memory,
 * containers with mg::allocator, types with virtual functions (all nodes run the same program at the same
 * addresses); no descriptors, no pointers to what malloc gave.
 */
#ifndef MULTIGRAIN_HPP
#define MULTIGRAIN_HPP

#include <multigrain.h>

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "multigrain.hpp needs C++17; multigrain.h serves older standards"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

namespace mg {

/* ---- Errors --------------------------------------------------------------------------------- */

namespace detail {

class category final : public std::error_category {
public:
    const char *name() const noexcept override { return "multigrain"; }
    std::string message(int code) const override { return mg_strerror(code); }
};

} // namespace detail

/* Of the codes of enum mg_error. */
inline const std::error_category &category() noexcept
{
    static const detail::category only;
    return only;
}

/* A call of the C interface that failed; what() begins with its name. */
class error : public std::system_error {
public:
    error(int code, const char *call) : std::system_error(code, category(), call) {}
};

} // namespace mg

/* So that `e.code() == MG_EPERM` can be asked. */
inline std::error_code make_error_code(mg_error code) noexcept
{
    return std::error_code(static_cast<int>(code), mg::category());
}

namespace std {
template <> struct is_error_code_enum<::mg_error> : true_type {};
} // namespace std

namespace mg {

namespace detail {

inline void check(int code, const char *call)
{
    if (code != MG_OK)
        throw error(code, call);
}

/* For calls that answer a question: whether it was done, or `no` is why not. */
inline bool asked(int code, mg_error no, const char *call)
{
    if (code != no)
        check(code, call);
    return code == MG_OK;
}

inline void *memory(void *p, const char *call)
{
    if (p != nullptr)
        return p;
    if (mg_last_error() == MG_ENOMEM)
        throw std::bad_alloc();
    throw error(mg_last_error(), call);
}

/* The moment of the real-time clock after so long from now, or at a moment of another clock. */
template <class Rep, class Period>
timespec after(const std::chrono::duration<Rep, Period> &wait)
{
    using namespace std::chrono;
    timespec now;
    std::timespec_get(&now, TIME_UTC);
    const auto longest = hours(24 * 365 * 100);
    auto rest = wait < longest ? ceil<nanoseconds>(wait) : nanoseconds(longest);
    if (rest < nanoseconds::zero())
        rest = nanoseconds::zero();
    const auto sum = seconds(now.tv_sec) + nanoseconds(now.tv_nsec) + rest;
    const auto whole = floor<seconds>(sum);
    timespec then;
    then.tv_sec = static_cast<std::time_t>(whole.count());
    then.tv_nsec = static_cast<long>((sum - whole).count());
    return then;
}

template <class Clock, class Duration>
timespec at(const std::chrono::time_point<Clock, Duration> &moment)
{
    return after(moment - Clock::now());
}

} // namespace detail

/* ---- Job ------------------------------------------------------------------------------------ */

/*
 * The job, joined for as long as this lives; one in a program, made in main. Its end waits for all nodes; when an
 * exception ends it, it does not, for the others may wait for this node: let main return another code than 0. A return
 * from main with such a code while the job lives waits first; std::exit with it ends the job at once.
 */
class job {
public:
    job() { detail::check(mg_init(nullptr, nullptr), "mg_init"); }
    job(int &argc, char **&argv) { detail::check(mg_init(&argc, &argv), "mg_init"); }
    job(const job &) = delete;
    job &operator=(const job &) = delete;
    ~job()
    {
        if (std::uncaught_exceptions() == exceptions_)
            mg_finalize();
    }

private:
    int exceptions_ = std::uncaught_exceptions();
};

inline int node() noexcept { return mg_node(); }
inline int nodes() noexcept { return mg_nodes(); }
inline int threads() noexcept { return mg_threads(); }

/* ---- Memory --------------------------------------------------------------------------------- */

/*
 * Shared memory for containers of the standard library, of a consistency. The container itself must be shared as
 * well if other nodes are to use it: mg::create<std::vector<T, mg::allocator<T>>>(...).
 */
template <class T, mg_consistency Consistency = MG_DEFAULT> class allocator {
public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    template <class U> struct rebind {
        using other = allocator<U, Consistency>;
    };

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U, Consistency> &) noexcept {}

    T *allocate(std::size_t count)
    {
        static_assert(alignof(T) <= alignof(std::max_align_t), "shared memory is aligned as malloc's");
        if (count > static_cast<std::size_t>(-1) / sizeof(T))
            throw std::bad_array_new_length();
        /* Containers may ask for nothing, and want an address. */
        const std::size_t bytes = count == 0 ? 1 : count * sizeof(T);
        return static_cast<T *>(detail::memory(mg_malloc_with(bytes, 0, Consistency), "mg_malloc_with"));
    }

    void deallocate(T *p, std::size_t) noexcept { mg_free(p); }
};

template <class T, class U, mg_consistency C>
bool operator==(const allocator<T, C> &, const allocator<U, C> &) noexcept
{
    return true;
}

template <class T, class U, mg_consistency C>
bool operator!=(const allocator<T, C> &, const allocator<U, C> &) noexcept
{
    return false;
}

/* A new T in shared memory: a minipage of its own, in a sequential job. */
template <class T, class... Arguments> T *create(Arguments &&...arguments)
{
    T *p = allocator<T>().allocate(1);
    try {
        return ::new (static_cast<void *>(p)) T(std::forward<Arguments>(arguments)...);
    } catch (...) {
        mg_free(p);
        throw;
    }
}

/* Ends what create() made, on any node. */
template <class T> void destroy(T *p)
{
    if (p != nullptr) {
        p->~T();
        detail::check(mg_free(p), "mg_free");
    }
}

inline void publish(const char *name, const void *p) { detail::check(mg_publish(name, p), "mg_publish"); }

/* What was published under a name, as a T; waits for it. */
template <class T> T *lookup(const char *name)
{
    return static_cast<T *>(detail::memory(mg_lookup(name), "mg_lookup"));
}

/*
 * Every node calls this and gets the same pointer: node 0 makes what it points to, as in
 * `auto *sum = mg::share("sum", [] { return mg::create<long>(0); })`.
 */
template <class Make> auto share(const char *name, Make make) -> decltype(make())
{
    using T = std::remove_pointer_t<decltype(make())>;
    if (mg::node() != 0)
        return lookup<T>(name);
    T *p = make();
    publish(name, p);
    return p;
}

/* Contiguous values that somebody else owns, in shared memory or not; std::span where there is none. */
template <class T> class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using pointer = T *;
    using reference = T &;
    using iterator = T *;
    using reverse_iterator = std::reverse_iterator<iterator>;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    /* A container with data() and size(), such as std::vector; a span of T becomes one of const T. */
    template <class Container, class = std::enable_if_t<std::is_convertible_v<
                                   std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))> (*)[],
                                   T (*)[]>>>
    constexpr span(Container &&container) : data_(std::data(container)), size_(std::size(container))
    {
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }
    constexpr T &front() const { return data_[0]; }
    constexpr T &back() const { return data_[size_ - 1]; }
    constexpr iterator begin() const noexcept { return data_; }
    constexpr iterator end() const noexcept { return data_ + size_; }
    constexpr reverse_iterator rbegin() const noexcept { return reverse_iterator(end()); }
    constexpr reverse_iterator rend() const noexcept { return reverse_iterator(begin()); }
    constexpr span first(std::size_t count) const { return span(data_, count); }
    constexpr span last(std::size_t count) const { return span(data_ + (size_ - count), count); }
    constexpr span subspan(std::size_t start, std::size_t count) const { return span(data_ + start, count); }
    constexpr span subspan(std::size_t start) const { return span(data_ + start, size_ - start); }

    /* Copies ahead of use, for all, and ahead of system calls: multigrain.h. */
    void prefetch_read() const { detail::check(mg_prefetch_read(data_, size_bytes()), "mg_prefetch_read"); }
    void prefetch_write() const { detail::check(mg_prefetch_write(data_, size_bytes()), "mg_prefetch_write"); }
    void push() const { detail::check(mg_push(data_, size_bytes()), "mg_push"); }
    void touch_read() const { detail::check(mg_touch_read(data_, size_bytes()), "mg_touch_read"); }
    void touch_write() const { detail::check(mg_touch_write(data_, size_bytes()), "mg_touch_write"); }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

template <class Container>
span(Container &) -> span<std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>>;

/* `count` values, T(), in one contiguous block of shared memory, divided into minipages of `grain` bytes (0: the natural). */
template <class T>
span<T> create_span(std::size_t count, std::size_t grain = 0, mg_consistency consistency = MG_DEFAULT)
{
    static_assert(std::is_trivially_destructible_v<T>, "destroy_span() ends no values");
    if (count > static_cast<std::size_t>(-1) / sizeof(T))
        throw std::bad_array_new_length();
    void *p = detail::memory(mg_malloc_with(count * sizeof(T), grain, consistency), "mg_malloc_with");
    T *values = static_cast<T *>(p);
    for (std::size_t i = 0; i < count; i++)
        ::new (static_cast<void *>(values + i)) T();
    return span<T>(values, count);
}

template <class T> void destroy_span(span<T> values) { detail::check(mg_free(values.data()), "mg_free"); }

/* ---- Synchronization ------------------------------------------------------------------------ */

/* For std::lock_guard, std::unique_lock and std::scoped_lock. Not recursive: a second lock() throws MG_EPERM. */
class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock() { detail::check(mg_lock_at(this), "mg_lock_at"); }
    void unlock() { detail::check(mg_unlock_at(this), "mg_unlock_at"); }
    bool try_lock() { return detail::asked(mg_trylock_at(this), MG_EBUSY, "mg_trylock_at"); }

    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return try_lock_before(detail::after(limit));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &moment)
    {
        return try_lock_before(detail::at(moment));
    }

private:
    bool try_lock_before(const timespec &deadline)
    {
        return detail::asked(mg_timedlock_at(this, &deadline), MG_ETIMEDOUT, "mg_timedlock_at");
    }
    /* Nothing is kept here; objects have unlike addresses. */
    std::uint64_t place_ = 0;
};

/* For std::shared_lock and std::unique_lock. */
class shared_mutex {
public:
    constexpr shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock() { detail::check(mg_rwlock_wrlock_at(this), "mg_rwlock_wrlock_at"); }
    bool try_lock() { return detail::asked(mg_rwlock_trywrlock_at(this), MG_EBUSY, "mg_rwlock_trywrlock_at"); }
    void unlock() { detail::check(mg_rwlock_unlock_at(this), "mg_rwlock_unlock_at"); }
    void lock_shared() { detail::check(mg_rwlock_rdlock_at(this), "mg_rwlock_rdlock_at"); }
    bool try_lock_shared()
    {
        return detail::asked(mg_rwlock_tryrdlock_at(this), MG_EBUSY, "mg_rwlock_tryrdlock_at");
    }
    void unlock_shared() { detail::check(mg_rwlock_unlock_at(this), "mg_rwlock_unlock_at"); }

private:
    std::uint64_t place_ = 0;
};

enum class cv_status { no_timeout, timeout };

class condition_variable {
public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    void notify_one() { detail::check(mg_cond_signal_at(this), "mg_cond_signal_at"); }
    void notify_all() { detail::check(mg_cond_broadcast_at(this), "mg_cond_broadcast_at"); }

    void wait(std::unique_lock<mutex> &lock)
    {
        detail::check(mg_cond_wait_at(this, lock.mutex()), "mg_cond_wait_at");
    }
    template <class Predicate> void wait(std::unique_lock<mutex> &lock, Predicate done)
    {
        while (!done())
            wait(lock);
    }

    template <class Rep, class Period>
    cv_status wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &limit)
    {
        return wait_before(lock, detail::after(limit));
    }
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &limit, Predicate done)
    {
        return wait_before(lock, detail::after(limit), done);
    }
    template <class Clock, class Duration>
    cv_status wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &moment)
    {
        return wait_before(lock, detail::at(moment));
    }
    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &moment,
                    Predicate done)
    {
        return wait_before(lock, detail::at(moment), done);
    }

private:
    cv_status wait_before(std::unique_lock<mutex> &lock, const timespec &deadline)
    {
        const int code = mg_cond_timedwait_at(this, lock.mutex(), &deadline);
        return detail::asked(code, MG_ETIMEDOUT, "mg_cond_timedwait_at") ? cv_status::no_timeout
                                                                         : cv_status::timeout;
    }
    template <class Predicate>
    bool wait_before(std::unique_lock<mutex> &lock, const timespec &deadline, Predicate &done)
    {
        while (!done())
            if (wait_before(lock, deadline) == cv_status::timeout)
                return done();
        return true;
    }
    std::uint64_t place_ = 0;
};

/* Its value starts at 0: who makes it releases the first units, once. */
class semaphore {
public:
    constexpr semaphore() noexcept = default;
    semaphore(const semaphore &) = delete;
    semaphore &operator=(const semaphore &) = delete;

    void release(std::uint32_t units = 1) { detail::check(mg_sem_post_at(this, units), "mg_sem_post_at"); }
    void acquire() { detail::check(mg_sem_wait_at(this), "mg_sem_wait_at"); }
    bool try_acquire() { return detail::asked(mg_sem_trywait_at(this), MG_EBUSY, "mg_sem_trywait_at"); }
    template <class Rep, class Period> bool try_acquire_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return try_acquire_before(detail::after(limit));
    }
    template <class Clock, class Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &moment)
    {
        return try_acquire_before(detail::at(moment));
    }

private:
    bool try_acquire_before(const timespec &deadline)
    {
        return detail::asked(mg_sem_timedwait_at(this, &deadline), MG_ETIMEDOUT, "mg_sem_timedwait_at");
    }
    std::uint64_t place_ = 0;
};

/* Of so many threads, wherever they run; 0: mg_threads() of each node. */
class barrier {
public:
    constexpr explicit barrier(std::uint32_t threads = 0) noexcept : threads_(threads) {}
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    void arrive_and_wait() { detail::check(mg_barrier_at(this, threads_), "mg_barrier_at"); }

private:
    std::uint32_t threads_;
};

/* ---- Collective operations ------------------------------------------------------------------ */

namespace detail {

template <class T> constexpr mg_type type_of() = delete;
template <> constexpr mg_type type_of<std::int32_t>() { return MG_INT32; }
template <> constexpr mg_type type_of<std::int64_t>() { return MG_INT64; }
template <> constexpr mg_type type_of<std::uint64_t>() { return MG_UINT64; }
template <> constexpr mg_type type_of<float>() { return MG_FLOAT; }
template <> constexpr mg_type type_of<double>() { return MG_DOUBLE; }

} // namespace detail

/* Threads that do collective operations together; `place` is the caller's own, from 0. 0 threads: of each node. */
struct party {
    std::uint32_t id;
    std::uint32_t place;
    std::uint32_t threads = 0;
};

/* What the thread at place `root` has, for all. */
template <class T>
void broadcast(const party &of, std::uint32_t root, T *data, std::size_t count = 1)
{
    static_assert(std::is_trivially_copyable_v<T>, "values travel as bytes");
    detail::check(mg_broadcast(of.id, of.threads, of.place, root, data, count * sizeof(T)), "mg_broadcast");
}

/* The result takes the place of the values: at `root` alone, at all threads, or up to each thread's own place. */
template <class T>
void reduce(const party &of, std::uint32_t root, mg_operation operation, T *data, std::size_t count = 1)
{
    detail::check(mg_reduce(of.id, of.threads, of.place, root, data, data, count, detail::type_of<T>(), operation),
                  "mg_reduce");
}
template <class T>
void allreduce(const party &of, mg_operation operation, T *data, std::size_t count = 1)
{
    detail::check(mg_allreduce(of.id, of.threads, of.place, data, data, count, detail::type_of<T>(), operation),
                  "mg_allreduce");
}
template <class T>
void scan(const party &of, mg_operation operation, T *data, std::size_t count = 1)
{
    detail::check(mg_scan(of.id, of.threads, of.place, data, data, count, detail::type_of<T>(), operation),
                  "mg_scan");
}

/* ---- Atomic operations where the word lives: of std::int32_t, std::int64_t, std::uint64_t, float and double ------- */

namespace detail {

/* A parameter of this type does not say what T is: fetch_add(word, 1) is of the word's type. */
template <class T> struct same {
    using type = T;
};

} // namespace detail

/* Each gives the value before. */
template <class T> T fetch_op(T *word, mg_operation operation, typename detail::same<T>::type operand)
{
    T before;
    detail::check(mg_fetch_op(word, detail::type_of<T>(), operation, &operand, &before), "mg_fetch_op");
    return before;
}
template <class T> T fetch_add(T *word, typename detail::same<T>::type operand)
{
    return fetch_op(word, MG_SUM, operand);
}
template <class T> T exchange(T *word, typename detail::same<T>::type operand)
{
    T before;
    detail::check(mg_exchange(word, detail::type_of<T>(), &operand, &before), "mg_exchange");
    return before;
}
template <class T> T compare_exchange(T *word, typename detail::same<T>::type expected, typename detail::same<T>::type operand)
{
    T before;
    detail::check(mg_compare_exchange(word, detail::type_of<T>(), &expected, &operand, &before), "mg_compare_exchange");
    return before;
}

class once_flag {
public:
    constexpr once_flag() noexcept = default;
    once_flag(const once_flag &) = delete;
    once_flag &operator=(const once_flag &) = delete;

private:
    std::uint64_t place_ = 0;
};

/* Calls `function` in the first thread of the job that comes; the others wait until it is through. */
inline void call_once(once_flag &flag, void (*function)())
{
    detail::check(mg_once_at(&flag, function), "mg_once_at");
}

/* ---- Threads -------------------------------------------------------------------------------- */

/* Where a thread runs. */
struct on {
    int node;
};
constexpr on any_node{MG_ANY_NODE};

/*
 * A thread on a node. The function is one of the program, or a closure that captures nothing; the arguments
 * are copied there, and must mean the same there: numbers, pointers to shared memory, structures of these. As with
 * std::thread, an exception that leaves the function ends the program, and so does a thread that is destroyed
 * before it is joined or detached.
 */
class thread {
public:
    thread() noexcept = default;

    template <class Function, class... Arguments>
    thread(on where, Function function, Arguments... arguments)
    {
        static_assert((std::is_trivially_copyable_v<Arguments> && ...), "arguments are copied as bytes");
        static_assert(std::is_empty_v<Function> || std::is_function_v<std::remove_pointer_t<Function>>,
                      "what a closure captures stays on this node: give it as an argument");
        static_assert(std::is_invocable_v<Function, Arguments...>, "the function takes these arguments");
        using packet = packet_of<Function, Arguments...>;
        packet *p = create<packet>(function, arguments...);
        const int code = mg_thread_create(&handle_, where.node, enter<packet>, p);
        if (code != MG_OK) {
            handle_ = 0;
            mg_free(p);
            throw error(code, "mg_thread_create");
        }
    }

    thread(thread &&other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    thread &operator=(thread &&other) noexcept
    {
        if (joinable())
            std::terminate();
        handle_ = std::exchange(other.handle_, 0);
        return *this;
    }
    ~thread()
    {
        if (joinable())
            std::terminate();
    }

    bool joinable() const noexcept { return handle_ != 0; }
    mg_thread native_handle() const noexcept { return handle_; }
    void join() { detail::check(mg_thread_join(std::exchange(handle_, 0), nullptr), "mg_thread_join"); }
    void detach() { detail::check(mg_thread_detach(std::exchange(handle_, 0)), "mg_thread_detach"); }

private:
    template <class Function, class... Arguments> struct packet_of {
        packet_of(Function f, Arguments... a) : function(f), arguments(a...) {}
        Function function;
        std::tuple<Arguments...> arguments;
    };

    template <class Packet> static void *enter(void *argument) noexcept
    {
        Packet packet = *static_cast<Packet *>(argument);
        mg_free(argument);
        std::apply(packet.function, std::move(packet.arguments));
        return nullptr;
    }

    mg_thread handle_ = 0;
};

} // namespace mg

#endif
