! multigrain.f90 - multigrain.h for Fortran 2018, by iso_c_binding. Compile it with your program:
!
!     gfortran "$(pkg-config --variable=includedir multigrain)/multigrain.f90" app.f90 \
!         $(pkg-config --libs multigrain) -o app
!
! What each call does is said in multigrain.h; these have the same names. All end with an optional `ierr`: 0, or a
! negative code (mg_strerror explains). Without it an error is printed and ends the program, and with it the job.
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
        ! The last error of a call of this thread that gave a pointer.
        integer(c_int) function mg_last_error() bind(c, name="mg_last_error")
            import
        end function
        ! A number for a lock, barrier, semaphore or condition that no other node has.
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

    private :: error_unit, all_threads, judge, judge_pointer, c_string, fortran_string
    private :: c_init, c_finalize, c_strerror, c_malloc, c_calloc, c_malloc_array, c_element, c_malloc_grain, &
        c_malloc_with, c_malloc_array_with, c_free, c_set_chunking, c_publish, c_lookup, c_prefetch_read, &
        c_prefetch_write, c_push, c_touch_read, c_touch_write, c_lock, c_trylock, c_unlock, c_barrier, c_sem_post, &
        c_broadcast, c_reduce, c_allreduce, c_scan, &
        c_sem_wait, c_sem_trywait, c_cond_wait, c_cond_signal, c_cond_broadcast, c_rwlock_rdlock, c_rwlock_wrlock, &
        c_rwlock_unlock, c_thread_create, c_thread_join, c_thread_detach, c_strlen

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
        integer(c_int) :: code
        code = c_trylock(id)
        held = code == MG_OK
        if (code == MG_EBUSY) code = MG_OK
        call judge('mg_trylock', code, ierr)
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
        integer(c_int) :: code
        code = c_sem_trywait(id)
        taken = code == MG_OK
        if (code == MG_EBUSY) code = MG_OK
        call judge('mg_sem_trywait', code, ierr)
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
