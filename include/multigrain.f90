! multigrain.f90 - multigrain.h for Fortran 2018, by iso_c_binding. Compile it with your program:
!
!     gfortran "$(pkg-config --variable=includedir multigrain)/multigrain.f90" app.f90 \
!         $(pkg-config --libs multigrain) -o app
!
! What each call does is said in multigrain.h; these have the same names. All end with an optional `ierr`: 0, or a
! negative code (mg_strerror explains). Without it an error is printed and ends the program, and with it the job.
!
! Of multigrain.h only mg_elements, mg_strdup, mg_fread, mg_fwrite, mg_thread_create_with, mg_reduce_with,
! mg_allreduce_with, mg_scan_with, mg_get_stats and mg_version are not here, nor named segments: mg_segment_create,
! mg_segment_attach, mg_segment_detach, mg_segment_remove, mg_segment_stat, mg_segment_stat_at, mg_segment_set,
! mg_write_lock, mg_write_unlock
!
! Memory comes as type(c_ptr); c_f_pointer makes an array of it. Module variables, saved variables and what
! `allocate` gives are private to a node.
!
!     real(c_double), pointer :: grid(:, :)
!     call c_f_pointer(mg_share('grid', c_sizeof(0d0) * n * m), grid, [n, m])
!
! Other nodes change what a pointer's target holds. A compiler that keeps to the standard looks at it again after each
! call of this module, as after any procedure it does not know; a loop that waits for a value without such a
! call needs the attribute `volatile`.

! The functions of multigrain.h as they are; those that `multigrain` has in a Fortran form begin with c_.
module multigrain_c
    use, intrinsic :: iso_c_binding
    implicit none
    public

    ! A deadline: struct timespec of CLOCK_REALTIME; mg_after makes one.
    type, bind(c) :: mg_timespec
        integer(c_long) :: tv_sec, tv_nsec
    end type

    interface
        ! This node's rank, from 0; nodes in the job; threads each node is meant to run.
        integer(c_int) function mg_node() bind(c, name="mg_node")
            import
        end function
        integer(c_int) function mg_nodes() bind(c, name="mg_nodes")
            import
        end function
        integer(c_int) function mg_threads() bind(c, name="mg_threads")
            import
        end function
        subroutine mg_progress(done, total) bind(c, name="mg_progress")
            import
            integer(c_int64_t), value :: done, total
        end subroutine
        ! The code of this thread's last failed call of the library, MG_OK before any.
        integer(c_int) function mg_last_error() bind(c, name="mg_last_error")
            import
        end function
        ! An id for a lock, barrier, semaphore, condition, read-write lock or once that nobody in the job has.
        integer(c_int32_t) function mg_new_id() bind(c, name="mg_new_id")
            import
        end function

        integer(c_int) function c_init(argc, argv) bind(c, name="mg_init")
            import
            type(c_ptr), value :: argc, argv
        end function
        integer(c_int) function c_finalize() bind(c, name="mg_finalize")
            import
        end function
        type(c_ptr) function c_strerror(code) bind(c, name="mg_strerror")
            import
            integer(c_int), value :: code
        end function

        type(c_ptr) function c_malloc(bytes) bind(c, name="mg_malloc")
            import
            integer(c_size_t), value :: bytes
        end function
        type(c_ptr) function c_calloc(count, bytes) bind(c, name="mg_calloc")
            import
            integer(c_size_t), value :: count, bytes
        end function
        type(c_ptr) function c_memalign(align, bytes) bind(c, name="mg_memalign")
            import
            integer(c_size_t), value :: align, bytes
        end function
        type(c_ptr) function c_realloc(p, bytes) bind(c, name="mg_realloc")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_size_t) function c_usable_size(p) bind(c, name="mg_usable_size")
            import
            type(c_ptr), value :: p
        end function
        type(c_ptr) function c_malloc_array(count, bytes) bind(c, name="mg_malloc_array")
            import
            integer(c_size_t), value :: count, bytes
        end function
        type(c_ptr) function c_element(array, i) bind(c, name="mg_element")
            import
            type(c_ptr), value :: array
            integer(c_size_t), value :: i
        end function
        type(c_ptr) function c_malloc_grain(bytes, grain) bind(c, name="mg_malloc_grain")
            import
            integer(c_size_t), value :: bytes, grain
        end function
        type(c_ptr) function c_malloc_with(bytes, grain, consistency) bind(c, name="mg_malloc_with")
            import
            integer(c_size_t), value :: bytes, grain
            integer(c_int), value :: consistency
        end function
        type(c_ptr) function c_malloc_array_with(count, bytes, consistency) bind(c, name="mg_malloc_array_with")
            import
            integer(c_size_t), value :: count, bytes
            integer(c_int), value :: consistency
        end function
        integer(c_int) function c_free(p) bind(c, name="mg_free")
            import
            type(c_ptr), value :: p
        end function
        integer(c_int) function c_set_chunking(level) bind(c, name="mg_set_chunking")
            import
            integer(c_int), value :: level
        end function
        integer(c_int) function c_publish(name, p) bind(c, name="mg_publish")
            import
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), value :: p
        end function
        type(c_ptr) function c_lookup(name) bind(c, name="mg_lookup")
            import
            character(kind=c_char), intent(in) :: name(*)
        end function
        integer(c_int) function c_prefetch_read(p, bytes) bind(c, name="mg_prefetch_read")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_prefetch_write(p, bytes) bind(c, name="mg_prefetch_write")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_push(p, bytes) bind(c, name="mg_push")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_touch_read(p, bytes) bind(c, name="mg_touch_read")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_touch_write(p, bytes) bind(c, name="mg_touch_write")
            import
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function

        integer(c_int) function c_lock(id) bind(c, name="mg_lock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_trylock(id) bind(c, name="mg_trylock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_unlock(id) bind(c, name="mg_unlock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_barrier(id, threads) bind(c, name="mg_barrier")
            import
            integer(c_int32_t), value :: id, threads
        end function
        integer(c_int) function c_broadcast(id, threads, place, root, data, bytes) bind(c, name="mg_broadcast")
            import
            integer(c_int32_t), value :: id, threads, place, root
            type(c_ptr), value :: data
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_reduce(id, threads, place, root, from, to, count, type, operation) &
                bind(c, name="mg_reduce")
            import
            integer(c_int32_t), value :: id, threads, place, root
            type(c_ptr), value :: from, to
            integer(c_size_t), value :: count
            integer(c_int), value :: type, operation
        end function
        integer(c_int) function c_allreduce(id, threads, place, from, to, count, type, operation) &
                bind(c, name="mg_allreduce")
            import
            integer(c_int32_t), value :: id, threads, place
            type(c_ptr), value :: from, to
            integer(c_size_t), value :: count
            integer(c_int), value :: type, operation
        end function
        integer(c_int) function c_scan(id, threads, place, from, to, count, type, operation) bind(c, name="mg_scan")
            import
            integer(c_int32_t), value :: id, threads, place
            type(c_ptr), value :: from, to
            integer(c_size_t), value :: count
            integer(c_int), value :: type, operation
        end function
        integer(c_int) function c_fetch_op(word, type, operation, operand, before) bind(c, name="mg_fetch_op")
            import
            type(c_ptr), value :: word, operand, before
            integer(c_int), value :: type, operation
        end function
        integer(c_int) function c_exchange(word, type, operand, before) bind(c, name="mg_exchange")
            import
            type(c_ptr), value :: word, operand, before
            integer(c_int), value :: type
        end function
        integer(c_int) function c_compare_exchange(word, type, expected, operand, before) &
                bind(c, name="mg_compare_exchange")
            import
            type(c_ptr), value :: word, expected, operand, before
            integer(c_int), value :: type
        end function
        integer(c_int) function c_sem_post(id, count) bind(c, name="mg_sem_post")
            import
            integer(c_int32_t), value :: id, count
        end function
        integer(c_int) function c_sem_wait(id) bind(c, name="mg_sem_wait")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_sem_trywait(id) bind(c, name="mg_sem_trywait")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_cond_wait(id, lock) bind(c, name="mg_cond_wait")
            import
            integer(c_int32_t), value :: id, lock
        end function
        integer(c_int) function c_cond_signal(id) bind(c, name="mg_cond_signal")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_cond_broadcast(id) bind(c, name="mg_cond_broadcast")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_rwlock_rdlock(id) bind(c, name="mg_rwlock_rdlock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_rwlock_wrlock(id) bind(c, name="mg_rwlock_wrlock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_rwlock_unlock(id) bind(c, name="mg_rwlock_unlock")
            import
            integer(c_int32_t), value :: id
        end function

        integer(c_int) function c_timedlock(id, deadline) bind(c, name="mg_timedlock")
            import
            integer(c_int32_t), value :: id
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_sem_timedwait(id, deadline) bind(c, name="mg_sem_timedwait")
            import
            integer(c_int32_t), value :: id
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_cond_timedwait(id, lock, deadline) bind(c, name="mg_cond_timedwait")
            import
            integer(c_int32_t), value :: id, lock
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_rwlock_tryrdlock(id) bind(c, name="mg_rwlock_tryrdlock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_rwlock_trywrlock(id) bind(c, name="mg_rwlock_trywrlock")
            import
            integer(c_int32_t), value :: id
        end function
        integer(c_int) function c_once(id, f) bind(c, name="mg_once")
            import
            integer(c_int32_t), value :: id
            type(c_funptr), value :: f
        end function

        integer(c_int) function c_lock_at(lock) bind(c, name="mg_lock_at")
            import
            type(c_ptr), value :: lock
        end function
        integer(c_int) function c_unlock_at(lock) bind(c, name="mg_unlock_at")
            import
            type(c_ptr), value :: lock
        end function
        integer(c_int) function c_trylock_at(lock) bind(c, name="mg_trylock_at")
            import
            type(c_ptr), value :: lock
        end function
        integer(c_int) function c_timedlock_at(lock, deadline) bind(c, name="mg_timedlock_at")
            import
            type(c_ptr), value :: lock
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_barrier_at(barrier, threads) bind(c, name="mg_barrier_at")
            import
            type(c_ptr), value :: barrier
            integer(c_int32_t), value :: threads
        end function
        integer(c_int) function c_sem_post_at(sem, count) bind(c, name="mg_sem_post_at")
            import
            type(c_ptr), value :: sem
            integer(c_int32_t), value :: count
        end function
        integer(c_int) function c_sem_wait_at(sem) bind(c, name="mg_sem_wait_at")
            import
            type(c_ptr), value :: sem
        end function
        integer(c_int) function c_sem_trywait_at(sem) bind(c, name="mg_sem_trywait_at")
            import
            type(c_ptr), value :: sem
        end function
        integer(c_int) function c_sem_timedwait_at(sem, deadline) bind(c, name="mg_sem_timedwait_at")
            import
            type(c_ptr), value :: sem
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_cond_wait_at(cond, lock) bind(c, name="mg_cond_wait_at")
            import
            type(c_ptr), value :: cond, lock
        end function
        integer(c_int) function c_cond_timedwait_at(cond, lock, deadline) bind(c, name="mg_cond_timedwait_at")
            import
            type(c_ptr), value :: cond, lock
            type(mg_timespec), intent(in) :: deadline
        end function
        integer(c_int) function c_cond_signal_at(cond) bind(c, name="mg_cond_signal_at")
            import
            type(c_ptr), value :: cond
        end function
        integer(c_int) function c_cond_broadcast_at(cond) bind(c, name="mg_cond_broadcast_at")
            import
            type(c_ptr), value :: cond
        end function
        integer(c_int) function c_rwlock_rdlock_at(rwlock) bind(c, name="mg_rwlock_rdlock_at")
            import
            type(c_ptr), value :: rwlock
        end function
        integer(c_int) function c_rwlock_wrlock_at(rwlock) bind(c, name="mg_rwlock_wrlock_at")
            import
            type(c_ptr), value :: rwlock
        end function
        integer(c_int) function c_rwlock_tryrdlock_at(rwlock) bind(c, name="mg_rwlock_tryrdlock_at")
            import
            type(c_ptr), value :: rwlock
        end function
        integer(c_int) function c_rwlock_trywrlock_at(rwlock) bind(c, name="mg_rwlock_trywrlock_at")
            import
            type(c_ptr), value :: rwlock
        end function
        integer(c_int) function c_rwlock_unlock_at(rwlock) bind(c, name="mg_rwlock_unlock_at")
            import
            type(c_ptr), value :: rwlock
        end function
        integer(c_int) function c_once_at(once, f) bind(c, name="mg_once_at")
            import
            type(c_ptr), value :: once
            type(c_funptr), value :: f
        end function

        integer(c_intptr_t) function c_read(file, p, bytes) bind(c, name="mg_read")
            import
            integer(c_int), value :: file
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_intptr_t) function c_write(file, p, bytes) bind(c, name="mg_write")
            import
            integer(c_int), value :: file
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_intptr_t) function c_pread(file, p, bytes, offset) bind(c, name="mg_pread")
            import
            integer(c_int), value :: file
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
            integer(c_int64_t), value :: offset
        end function
        integer(c_intptr_t) function c_pwrite(file, p, bytes, offset) bind(c, name="mg_pwrite")
            import
            integer(c_int), value :: file
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
            integer(c_int64_t), value :: offset
        end function
        integer(c_intptr_t) function c_recv(file, p, bytes, flags) bind(c, name="mg_recv")
            import
            integer(c_int), value :: file, flags
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_intptr_t) function c_send(file, p, bytes, flags) bind(c, name="mg_send")
            import
            integer(c_int), value :: file, flags
            type(c_ptr), value :: p
            integer(c_size_t), value :: bytes
        end function
        subroutine c_perror(text) bind(c, name="perror")
            import
            character(kind=c_char), intent(in) :: text(*)
        end subroutine
        integer(c_int) function c_clock_gettime(clock, time) bind(c, name="clock_gettime")
            import
            integer(c_int), value :: clock
            type(mg_timespec), intent(out) :: time
        end function

        integer(c_int) function c_thread_create(thread, node, start, arg) bind(c, name="mg_thread_create")
            import
            integer(c_int64_t), intent(out) :: thread
            integer(c_int), value :: node
            type(c_funptr), value :: start
            type(c_ptr), value :: arg
        end function
        integer(c_int) function c_thread_join(thread, result) bind(c, name="mg_thread_join")
            import
            integer(c_int64_t), value :: thread
            type(c_ptr), intent(out) :: result
        end function
        integer(c_int) function c_thread_detach(thread) bind(c, name="mg_thread_detach")
            import
            integer(c_int64_t), value :: thread
        end function

        integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
            import
            type(c_ptr), value :: text
        end function
    end interface
end module

module multigrain
    use, intrinsic :: iso_c_binding
    use multigrain_c
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none
    public

    integer(c_int), parameter :: MG_OK = 0
    integer(c_int), parameter :: MG_EINVAL = -1
    integer(c_int), parameter :: MG_ENOMEM = -2
    integer(c_int), parameter :: MG_ENOTINIT = -3
    integer(c_int), parameter :: MG_EAGAIN = -4
    integer(c_int), parameter :: MG_ENODE = -5
    integer(c_int), parameter :: MG_ENOTSHARED = -6
    integer(c_int), parameter :: MG_ELIMIT = -7
    integer(c_int), parameter :: MG_EPEER = -8
    integer(c_int), parameter :: MG_ESYS = -9
    integer(c_int), parameter :: MG_EPERM = -10
    integer(c_int), parameter :: MG_EBUSY = -11
    integer(c_int), parameter :: MG_ETIMEDOUT = -12

    ! Consistencies.
    integer(c_int), parameter :: MG_DEFAULT = 0
    integer(c_int), parameter :: MG_SEQUENTIAL = 1
    integer(c_int), parameter :: MG_EAGER_RELEASE = 2
    integer(c_int), parameter :: MG_LAZY_RELEASE = 3
    integer(c_int), parameter :: MG_AUTO = 4

    integer(c_int), parameter :: MG_INT32 = 0
    integer(c_int), parameter :: MG_INT64 = 1
    integer(c_int), parameter :: MG_UINT64 = 2
    integer(c_int), parameter :: MG_FLOAT = 3
    integer(c_int), parameter :: MG_DOUBLE = 4

    integer(c_int), parameter :: MG_SUM = 0
    integer(c_int), parameter :: MG_MIN = 1
    integer(c_int), parameter :: MG_MAX = 2
    integer(c_int), parameter :: MG_AND = 3
    integer(c_int), parameter :: MG_OR = 4

    integer(c_int), parameter :: MG_ANY_NODE = -1

    private :: error_unit, all_threads, place_of, judge, judge_pointer, judge_try, judge_bytes, c_string, fortran_string
    private :: c_init, c_finalize, c_strerror, c_malloc, c_calloc, c_malloc_array, c_element, c_malloc_grain, &
        c_malloc_with, c_malloc_array_with, c_free, c_set_chunking, c_publish, c_lookup, c_prefetch_read, &
        c_prefetch_write, c_push, c_touch_read, c_touch_write, c_lock, c_trylock, c_unlock, c_barrier, c_sem_post, &
        c_broadcast, c_reduce, c_allreduce, c_scan, &
        c_fetch_op, c_exchange, c_compare_exchange, &
        c_sem_wait, c_sem_trywait, c_cond_wait, c_cond_signal, c_cond_broadcast, c_rwlock_rdlock, c_rwlock_wrlock, &
        c_rwlock_unlock, c_thread_create, c_thread_join, c_thread_detach, c_strlen
    private :: c_memalign, c_realloc, c_usable_size, c_timedlock, c_sem_timedwait, c_cond_timedwait, c_rwlock_tryrdlock, &
        c_rwlock_trywrlock, c_once, c_lock_at, c_unlock_at, c_trylock_at, c_timedlock_at, c_barrier_at, &
        c_sem_post_at, c_sem_wait_at, c_sem_trywait_at, c_sem_timedwait_at, c_cond_wait_at, c_cond_timedwait_at, &
        c_cond_signal_at, c_cond_broadcast_at, c_rwlock_rdlock_at, c_rwlock_wrlock_at, c_rwlock_tryrdlock_at, &
        c_rwlock_trywrlock_at, c_rwlock_unlock_at, c_once_at, c_read, c_write, c_pread, c_pwrite, c_recv, c_send, &
        c_perror, c_clock_gettime

contains

    ! ---- Errors ----------------------------------------------------------------------------------

    ! One sentence that says what happened and what to do.
    function mg_strerror(code) result(text)
        integer(c_int), intent(in) :: code
        character(:), allocatable :: text
        text = fortran_string(c_strerror(code))
    end function

    subroutine judge(call, code, ierr)
        character(*), intent(in) :: call
        integer(c_int), intent(in) :: code
        integer(c_int), intent(out), optional :: ierr
        if (present(ierr)) then
            ierr = code
        else if (code /= MG_OK) then
            write (error_unit, '(4a)') call, ': ', mg_strerror(code), '.'
            error stop 1
        end if
    end subroutine

    subroutine judge_pointer(call, p, ierr)
        character(*), intent(in) :: call
        type(c_ptr), intent(in) :: p
        integer(c_int), intent(out), optional :: ierr
        integer(c_int) :: code
        code = MG_OK
        if (.not. c_associated(p)) code = mg_last_error()
        call judge(call, code, ierr)
    end subroutine

    ! Whether what was tried was had; what was not is no error.
    function judge_try(call, code, ierr) result(had)
        character(*), intent(in) :: call
        integer(c_int), intent(in) :: code
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = code == MG_OK
        if (code == MG_EBUSY .or. code == MG_ETIMEDOUT) then
            call judge(call, MG_OK, ierr)
        else
            call judge(call, code, ierr)
        end if
    end function

    ! Of a call that is like a system call; errno says more.
    subroutine judge_bytes(call, done, ierr)
        character(*), intent(in) :: call
        integer(c_intptr_t), intent(in) :: done
        integer(c_int), intent(out), optional :: ierr
        if (present(ierr)) ierr = merge(MG_OK, MG_ESYS, done >= 0)
        if (done >= 0 .or. present(ierr)) return
        call c_perror(c_string(call))
        error stop 1
    end subroutine

    function c_string(text) result(c)
        character(*), intent(in) :: text
        character(:, kind=c_char), allocatable :: c
        c = trim(text) // c_null_char
    end function

    function fortran_string(p) result(text)
        type(c_ptr), intent(in) :: p
        character(:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: i
        call c_f_pointer(p, letters, [c_strlen(p)])
        allocate (character(size(letters)) :: text)
        do i = 1, size(letters)
            text(i:i) = letters(i)
        end do
    end function

    ! ---- Job -------------------------------------------------------------------------------------

    subroutine mg_init(ierr)
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_init', c_init(c_null_ptr, c_null_ptr), ierr)
    end subroutine

    ! Call it before the program ends: the end of a Fortran program may not leave the job by itself.
    subroutine mg_finalize(ierr)
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_finalize', c_finalize(), ierr)
    end subroutine

    ! ---- Memory ----------------------------------------------------------------------------------

    function mg_malloc(bytes, ierr) result(p)
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_malloc(bytes)
        call judge_pointer('mg_malloc', p, ierr)
    end function

    function mg_calloc(count, bytes, ierr) result(p)
        integer(c_size_t), intent(in) :: count, bytes
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_calloc(count, bytes)
        call judge_pointer('mg_calloc', p, ierr)
    end function

    ! At a multiple of `align`, a power of two up to 4 MiB.
    function mg_memalign(align, bytes, ierr) result(p)
        integer(c_size_t), intent(in) :: align, bytes
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_memalign(align, bytes)
        call judge_pointer('mg_memalign', p, ierr)
    end function

    ! The allocation `old` with another size, perhaps elsewhere; on failure `old` is as it was.
    function mg_realloc(old, bytes, ierr) result(p)
        type(c_ptr), intent(in) :: old
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_realloc(old, bytes)
        call judge_pointer('mg_realloc', p, ierr)
    end function

    ! Bytes that the allocation p may use.
    function mg_usable_size(p, ierr) result(bytes)
        type(c_ptr), intent(in) :: p
        integer(c_int), intent(out), optional :: ierr
        integer(c_size_t) :: bytes
        integer(c_int) :: code
        bytes = c_usable_size(p)
        code = MG_OK
        if (bytes == 0) code = mg_last_error()
        call judge('mg_usable_size', code, ierr)
    end function

    function mg_malloc_array(count, bytes, ierr) result(p)
        integer(c_size_t), intent(in) :: count, bytes
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_malloc_array(count, bytes)
        call judge_pointer('mg_malloc_array', p, ierr)
    end function

    ! Element i of an mg_malloc_array, from 1 as in Fortran.
    function mg_element(array, i, ierr) result(p)
        type(c_ptr), intent(in) :: array
        integer(c_size_t), intent(in) :: i
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_element(array, i - 1)
        call judge_pointer('mg_element', p, ierr)
    end function

    function mg_malloc_grain(bytes, grain, ierr) result(p)
        integer(c_size_t), intent(in) :: bytes, grain
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_malloc_grain(bytes, grain)
        call judge_pointer('mg_malloc_grain', p, ierr)
    end function

    function mg_malloc_with(bytes, grain, consistency, ierr) result(p)
        integer(c_size_t), intent(in) :: bytes, grain
        integer(c_int), intent(in) :: consistency
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_malloc_with(bytes, grain, consistency)
        call judge_pointer('mg_malloc_with', p, ierr)
    end function

    function mg_malloc_array_with(count, bytes, consistency, ierr) result(p)
        integer(c_size_t), intent(in) :: count, bytes
        integer(c_int), intent(in) :: consistency
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_malloc_array_with(count, bytes, consistency)
        call judge_pointer('mg_malloc_array_with', p, ierr)
    end function

    subroutine mg_free(p, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_free', c_free(p), ierr)
    end subroutine

    subroutine mg_set_chunking(level, ierr)
        integer(c_int), intent(in) :: level
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_set_chunking', c_set_chunking(level), ierr)
    end subroutine

    subroutine mg_publish(name, p, ierr)
        character(*), intent(in) :: name
        type(c_ptr), intent(in) :: p
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_publish', c_publish(c_string(name), p), ierr)
    end subroutine

    function mg_lookup(name, ierr) result(p)
        character(*), intent(in) :: name
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        p = c_lookup(c_string(name))
        call judge_pointer('mg_lookup', p, ierr)
    end function

    ! Zeroed memory under a name, in minipages of `grain` bytes, or the natural ones: every node calls this and
    ! gets the same. Node 0 allocates it.
    function mg_share(name, bytes, grain, ierr) result(p)
        character(*), intent(in) :: name
        integer(c_size_t), intent(in) :: bytes
        integer(c_size_t), intent(in), optional :: grain
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: p
        integer(c_int8_t), pointer :: fresh(:)
        integer(c_int) :: code
        if (mg_node() /= 0) then
            p = mg_lookup(name, ierr)
            return
        end if
        if (present(grain)) then
            p = mg_malloc_grain(bytes, grain, ierr)
        else
            p = mg_malloc(bytes, ierr)
        end if
        if (.not. c_associated(p)) return
        call c_f_pointer(p, fresh, [bytes])
        fresh = 0_c_int8_t
        code = c_publish(c_string(name), p)
        call judge('mg_share', code, ierr)
        if (code /= MG_OK) p = c_null_ptr
    end function

    subroutine mg_prefetch_read(p, bytes, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_prefetch_read', c_prefetch_read(p, bytes), ierr)
    end subroutine

    subroutine mg_prefetch_write(p, bytes, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_prefetch_write', c_prefetch_write(p, bytes), ierr)
    end subroutine

    subroutine mg_push(p, bytes, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_push', c_push(p, bytes), ierr)
    end subroutine

    ! Before shared memory is written to a file: system calls do not fault.
    subroutine mg_touch_read(p, bytes, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_touch_read', c_touch_read(p, bytes), ierr)
    end subroutine

    ! Before shared memory is read from a file.
    subroutine mg_touch_write(p, bytes, ierr)
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_touch_write', c_touch_write(p, bytes), ierr)
    end subroutine

    ! ---- System calls ----------------------------------------------------------------------------

    ! As read(2) and its kin, of file descriptors, with buffers anywhere: the bytes that were passed on, or -1 (ierr:
    ! MG_ESYS). Fortran units read and write what mg_touch_write and mg_touch_read have made ready.

    function mg_read(file, p, bytes, ierr) result(done)
        integer(c_int), intent(in) :: file
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_read(file, p, bytes)
        call judge_bytes('mg_read', done, ierr)
    end function

    function mg_write(file, p, bytes, ierr) result(done)
        integer(c_int), intent(in) :: file
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_write(file, p, bytes)
        call judge_bytes('mg_write', done, ierr)
    end function

    function mg_pread(file, p, bytes, offset, ierr) result(done)
        integer(c_int), intent(in) :: file
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int64_t), intent(in) :: offset
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_pread(file, p, bytes, offset)
        call judge_bytes('mg_pread', done, ierr)
    end function

    function mg_pwrite(file, p, bytes, offset, ierr) result(done)
        integer(c_int), intent(in) :: file
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int64_t), intent(in) :: offset
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_pwrite(file, p, bytes, offset)
        call judge_bytes('mg_pwrite', done, ierr)
    end function

    function mg_recv(file, p, bytes, flags, ierr) result(done)
        integer(c_int), intent(in) :: file, flags
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_recv(file, p, bytes, flags)
        call judge_bytes('mg_recv', done, ierr)
    end function

    function mg_send(file, p, bytes, flags, ierr) result(done)
        integer(c_int), intent(in) :: file, flags
        type(c_ptr), intent(in) :: p
        integer(c_size_t), intent(in) :: bytes
        integer(c_int), intent(out), optional :: ierr
        integer(c_intptr_t) :: done
        done = c_send(file, p, bytes, flags)
        call judge_bytes('mg_send', done, ierr)
    end function

    ! ---- Synchronization -------------------------------------------------------------------------

    subroutine mg_lock(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_lock', c_lock(id), ierr)
    end subroutine

    ! Whether the lock was free and is held now.
    function mg_trylock(id, ierr) result(held)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        logical :: held
        held = judge_try('mg_trylock', c_trylock(id), ierr)
    end function

    subroutine mg_unlock(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_unlock', c_unlock(id), ierr)
    end subroutine

    ! Of so many threads; without a number, mg_threads() of each node.
    subroutine mg_barrier(id, threads, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        integer(c_int32_t) :: all
        all = 0
        if (present(threads)) all = threads
        call judge('mg_barrier', c_barrier(id, all), ierr)
    end subroutine

    ! Collective operations of mg_threads() threads of each node, or of so many threads; `place` is the caller's
    ! own, from 0. The result takes the place of the values, `c_loc` of an array of `count` elements.
    subroutine mg_broadcast(id, place, root, values, bytes, threads, ierr)
        integer(c_int32_t), intent(in) :: id, place, root
        type(c_ptr), intent(in) :: values
        integer(c_size_t), intent(in) :: bytes
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_broadcast', c_broadcast(id, all_threads(threads), place, root, values, bytes), ierr)
    end subroutine

    subroutine mg_reduce(id, place, root, values, count, type, operation, threads, ierr)
        integer(c_int32_t), intent(in) :: id, place, root
        type(c_ptr), intent(in) :: values
        integer(c_size_t), intent(in) :: count
        integer(c_int), intent(in) :: type, operation
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_reduce', c_reduce(id, all_threads(threads), place, root, values, values, count, type, &
            operation), ierr)
    end subroutine

    subroutine mg_allreduce(id, place, values, count, type, operation, threads, ierr)
        integer(c_int32_t), intent(in) :: id, place
        type(c_ptr), intent(in) :: values
        integer(c_size_t), intent(in) :: count
        integer(c_int), intent(in) :: type, operation
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_allreduce', c_allreduce(id, all_threads(threads), place, values, values, count, type, &
            operation), ierr)
    end subroutine

    subroutine mg_scan(id, place, values, count, type, operation, threads, ierr)
        integer(c_int32_t), intent(in) :: id, place
        type(c_ptr), intent(in) :: values
        integer(c_size_t), intent(in) :: count
        integer(c_int), intent(in) :: type, operation
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_scan', c_scan(id, all_threads(threads), place, values, values, count, type, operation), ierr)
    end subroutine

    ! Atomic operations where the word lives; `before`, if given, points to where the value before goes.
    subroutine mg_fetch_op(word, type, operation, operand, before, ierr)
        type(c_ptr), intent(in) :: word, operand
        integer(c_int), intent(in) :: type, operation
        type(c_ptr), intent(in), optional :: before
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_fetch_op', c_fetch_op(word, type, operation, operand, place_of(before)), ierr)
    end subroutine

    subroutine mg_exchange(word, type, operand, before, ierr)
        type(c_ptr), intent(in) :: word, operand
        integer(c_int), intent(in) :: type
        type(c_ptr), intent(in), optional :: before
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_exchange', c_exchange(word, type, operand, place_of(before)), ierr)
    end subroutine

    subroutine mg_compare_exchange(word, type, expected, operand, before, ierr)
        type(c_ptr), intent(in) :: word, expected, operand
        integer(c_int), intent(in) :: type
        type(c_ptr), intent(in), optional :: before
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_compare_exchange', c_compare_exchange(word, type, expected, operand, place_of(before)), ierr)
    end subroutine

    type(c_ptr) function place_of(before)
        type(c_ptr), intent(in), optional :: before
        place_of = c_null_ptr
        if (present(before)) place_of = before
    end function

    integer(c_int32_t) function all_threads(threads)
        integer(c_int32_t), intent(in), optional :: threads
        all_threads = 0
        if (present(threads)) all_threads = threads
    end function

    ! One unit, if no number is given.
    subroutine mg_sem_post(id, count, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int32_t), intent(in), optional :: count
        integer(c_int), intent(out), optional :: ierr
        integer(c_int32_t) :: units
        units = 1
        if (present(count)) units = count
        call judge('mg_sem_post', c_sem_post(id, units), ierr)
    end subroutine

    subroutine mg_sem_wait(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_sem_wait', c_sem_wait(id), ierr)
    end subroutine

    ! Whether there was a unit, which is taken now.
    function mg_sem_trywait(id, ierr) result(taken)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        logical :: taken
        taken = judge_try('mg_sem_trywait', c_sem_trywait(id), ierr)
    end function

    subroutine mg_cond_wait(id, lock, ierr)
        integer(c_int32_t), intent(in) :: id, lock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_wait', c_cond_wait(id, lock), ierr)
    end subroutine

    subroutine mg_cond_signal(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_signal', c_cond_signal(id), ierr)
    end subroutine

    subroutine mg_cond_broadcast(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_broadcast', c_cond_broadcast(id), ierr)
    end subroutine

    subroutine mg_rwlock_rdlock(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_rdlock', c_rwlock_rdlock(id), ierr)
    end subroutine

    subroutine mg_rwlock_wrlock(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_wrlock', c_rwlock_wrlock(id), ierr)
    end subroutine

    subroutine mg_rwlock_unlock(id, ierr)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_unlock', c_rwlock_unlock(id), ierr)
    end subroutine

    ! So many seconds from now, for the calls with a deadline: whether what they wait for came by then.
    function mg_after(seconds) result(deadline)
        real(c_double), intent(in) :: seconds
        type(mg_timespec) :: deadline
        integer(c_long) :: whole
        integer(c_int) :: failed
        failed = c_clock_gettime(0_c_int, deadline) ! CLOCK_REALTIME
        if (failed /= 0) error stop 'mg_after: clock_gettime failed'
        whole = floor(seconds, c_long)
        deadline%tv_sec = deadline%tv_sec + whole
        deadline%tv_nsec = deadline%tv_nsec + int((seconds - real(whole, c_double)) * 1d9, c_long)
        if (deadline%tv_nsec >= 1000000000) then
            deadline%tv_sec = deadline%tv_sec + 1
            deadline%tv_nsec = deadline%tv_nsec - 1000000000
        end if
    end function

    function mg_timedlock(id, deadline, ierr) result(had)
        integer(c_int32_t), intent(in) :: id
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_timedlock', c_timedlock(id, deadline), ierr)
    end function

    function mg_sem_timedwait(id, deadline, ierr) result(had)
        integer(c_int32_t), intent(in) :: id
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_sem_timedwait', c_sem_timedwait(id, deadline), ierr)
    end function

    ! Whether a signal came; the lock is held again in any case.
    function mg_cond_timedwait(id, lock, deadline, ierr) result(had)
        integer(c_int32_t), intent(in) :: id, lock
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_cond_timedwait', c_cond_timedwait(id, lock, deadline), ierr)
    end function

    function mg_rwlock_tryrdlock(id, ierr) result(had)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_rwlock_tryrdlock', c_rwlock_tryrdlock(id), ierr)
    end function

    function mg_rwlock_trywrlock(id, ierr) result(had)
        integer(c_int32_t), intent(in) :: id
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_rwlock_trywrlock', c_rwlock_trywrlock(id), ierr)
    end function

    ! Calls `subroutine f() bind(c)` once in the job: call mg_once(id, c_funloc(f)).
    subroutine mg_once(id, f, ierr)
        integer(c_int32_t), intent(in) :: id
        type(c_funptr), value :: f
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_once', c_once(id, f), ierr)
    end subroutine

    ! The same, keyed by an address of shared memory.

    subroutine mg_lock_at(lock, ierr)
        type(c_ptr), intent(in) :: lock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_lock_at', c_lock_at(lock), ierr)
    end subroutine

    subroutine mg_unlock_at(lock, ierr)
        type(c_ptr), intent(in) :: lock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_unlock_at', c_unlock_at(lock), ierr)
    end subroutine

    function mg_trylock_at(lock, ierr) result(had)
        type(c_ptr), intent(in) :: lock
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_trylock_at', c_trylock_at(lock), ierr)
    end function

    function mg_timedlock_at(lock, deadline, ierr) result(had)
        type(c_ptr), intent(in) :: lock
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_timedlock_at', c_timedlock_at(lock, deadline), ierr)
    end function

    subroutine mg_barrier_at(barrier, threads, ierr)
        type(c_ptr), intent(in) :: barrier
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: ierr
        integer(c_int32_t) :: all
        all = 0
        if (present(threads)) all = threads
        call judge('mg_barrier_at', c_barrier_at(barrier, all), ierr)
    end subroutine

    subroutine mg_sem_post_at(sem, count, ierr)
        type(c_ptr), intent(in) :: sem
        integer(c_int32_t), intent(in), optional :: count
        integer(c_int), intent(out), optional :: ierr
        integer(c_int32_t) :: units
        units = 1
        if (present(count)) units = count
        call judge('mg_sem_post_at', c_sem_post_at(sem, units), ierr)
    end subroutine

    subroutine mg_sem_wait_at(sem, ierr)
        type(c_ptr), intent(in) :: sem
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_sem_wait_at', c_sem_wait_at(sem), ierr)
    end subroutine

    function mg_sem_trywait_at(sem, ierr) result(had)
        type(c_ptr), intent(in) :: sem
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_sem_trywait_at', c_sem_trywait_at(sem), ierr)
    end function

    function mg_sem_timedwait_at(sem, deadline, ierr) result(had)
        type(c_ptr), intent(in) :: sem
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_sem_timedwait_at', c_sem_timedwait_at(sem, deadline), ierr)
    end function

    subroutine mg_cond_wait_at(cond, lock, ierr)
        type(c_ptr), intent(in) :: cond, lock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_wait_at', c_cond_wait_at(cond, lock), ierr)
    end subroutine

    function mg_cond_timedwait_at(cond, lock, deadline, ierr) result(had)
        type(c_ptr), intent(in) :: cond, lock
        type(mg_timespec), intent(in) :: deadline
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_cond_timedwait_at', c_cond_timedwait_at(cond, lock, deadline), ierr)
    end function

    subroutine mg_cond_signal_at(cond, ierr)
        type(c_ptr), intent(in) :: cond
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_signal_at', c_cond_signal_at(cond), ierr)
    end subroutine

    subroutine mg_cond_broadcast_at(cond, ierr)
        type(c_ptr), intent(in) :: cond
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_cond_broadcast_at', c_cond_broadcast_at(cond), ierr)
    end subroutine

    subroutine mg_rwlock_rdlock_at(rwlock, ierr)
        type(c_ptr), intent(in) :: rwlock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_rdlock_at', c_rwlock_rdlock_at(rwlock), ierr)
    end subroutine

    subroutine mg_rwlock_wrlock_at(rwlock, ierr)
        type(c_ptr), intent(in) :: rwlock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_wrlock_at', c_rwlock_wrlock_at(rwlock), ierr)
    end subroutine

    function mg_rwlock_tryrdlock_at(rwlock, ierr) result(had)
        type(c_ptr), intent(in) :: rwlock
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_rwlock_tryrdlock_at', c_rwlock_tryrdlock_at(rwlock), ierr)
    end function

    function mg_rwlock_trywrlock_at(rwlock, ierr) result(had)
        type(c_ptr), intent(in) :: rwlock
        integer(c_int), intent(out), optional :: ierr
        logical :: had
        had = judge_try('mg_rwlock_trywrlock_at', c_rwlock_trywrlock_at(rwlock), ierr)
    end function

    subroutine mg_rwlock_unlock_at(rwlock, ierr)
        type(c_ptr), intent(in) :: rwlock
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_rwlock_unlock_at', c_rwlock_unlock_at(rwlock), ierr)
    end subroutine

    subroutine mg_once_at(once, f, ierr)
        type(c_ptr), intent(in) :: once
        type(c_funptr), value :: f
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_once_at', c_once_at(once, f), ierr)
    end subroutine

    ! ---- Threads ---------------------------------------------------------------------------------

    ! Starts `function start(arg) bind(c)`, of type(c_ptr) and with a type(c_ptr), value :: arg, on a node:
    ! call mg_thread_create(thread, node, c_funloc(start), arg).
    subroutine mg_thread_create(thread, node, start, arg, ierr)
        integer(c_int64_t), intent(out) :: thread
        integer(c_int), intent(in) :: node
        ! By value: by reference gfortran 12 puts the address of a function among constants.
        type(c_funptr), value :: start
        type(c_ptr), intent(in) :: arg
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_thread_create', c_thread_create(thread, node, start, arg), ierr)
    end subroutine

    subroutine mg_thread_join(thread, result, ierr)
        integer(c_int64_t), intent(in) :: thread
        type(c_ptr), intent(out), optional :: result
        integer(c_int), intent(out), optional :: ierr
        type(c_ptr) :: returned
        integer(c_int) :: code
        code = c_thread_join(thread, returned)
        if (present(result)) result = returned
        call judge('mg_thread_join', code, ierr)
    end subroutine

    subroutine mg_thread_detach(thread, ierr)
        integer(c_int64_t), intent(in) :: thread
        integer(c_int), intent(out), optional :: ierr
        call judge('mg_thread_detach', c_thread_detach(thread), ierr)
    end subroutine
end module
