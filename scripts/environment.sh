# shellcheck shell=bash
# Makes the virtual environments that the scripts beside it work in. Sourced, never run.
#
#   .venv/build   pip and the build backend: builds the wheel and fills the other two
#   .venv/run     what a deployment has: the runtime lock and the wheel, no pip, no build tool
#   .venv/dev     the same plus the tools of tests and checks
#
# Each is made once and again only when a lock file, the sources, the Python or the place of the checkout changes.

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Where packages come from (index, proxy, certificate) is the caller's choice and stays; settings that would send an
# installation elsewhere, or change what is installed, go. PIP_USER=0 also overrules a pip.conf.
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_EDITABLE PIP_REQUIREMENT PIP_CONSTRAINT PIP_REQUIRE_HASHES \
    PIP_REQUIRE_VIRTUALENV PIP_DRY_RUN PIP_NO_DEPS PIP_NO_BINARY PIP_REPORT PYTHONHOME PYTHONPATH
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf 'rollcall: %s\n' "$*" >&2; }

# Sets `python` to one that can make virtual environments: $PYTHON and no other where it is set, else the first on PATH.
find_python() {
    local candidate candidates=(python3 python3.14 python3.13 python3.12 python3.11 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python="$candidate"
            return
        fi
    done
    if [ -n "${PYTHON:-}" ]; then
        say "PYTHON is $PYTHON, which is not Python 3.11 or newer with its venv module."
    else
        say "found no Python 3.11 or newer with its venv module on PATH; install one, or set PYTHON to one."
    fi
    return 1
}

# One hash of the Python, the place of the checkout (virtual environments hold absolute paths) and the given files.
digest() {
    (cd "$root" && "$python" -I - "$@") <<'END'
import hashlib, pathlib, sys

whole = hashlib.sha256(repr((sys.version, sys.base_prefix, str(pathlib.Path.cwd()))).encode())
for name in sys.argv[1:]:
    top = pathlib.Path(name)
    for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
        if path.is_file() and "__pycache__" not in path.parts:
            whole.update(repr((str(path), hashlib.sha256(path.read_bytes()).hexdigest())).encode())
print(whole.hexdigest())
END
}

# is_current VENV STAMP HASH: VENV has that hash in its file STAMP, and the Python it was made from is still there.
is_current() { [ -x "$1/bin/python" ] && [ -f "$1/$2" ] && [ "$(cat "$1/$2")" = "$3" ]; }

build_environment() {
    local venv="$root/.venv/build" wanted
    wanted="$(digest requirements-build.lock)"
    is_current "$venv" stamp "$wanted" && return
    say "preparing .venv/build"
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --require-hashes --only-binary :all: -r "$root/requirements-build.lock"
    printf '%s\n' "$wanted" >"$venv/stamp"
}

# pip_into VENV ARGUMENTS: the build environment's pip installs into another one.
pip_into() {
    local venv="$1"
    shift
    "$root/.venv/build/bin/python" -m pip --python "$venv/bin/python" "$@"
}

# environment NAME LOCK: .venv/NAME holds exactly LOCK and the wheel of the checkout.
environment() {
    local name="$1" lock="$2" venv="$root/.venv/$1" locked built
    find_python
    locked="$(digest "$lock")"
    built="$(digest "$lock" requirements-build.lock pyproject.toml README.md LICENSE webhook)"
    is_current "$venv" built "$built" && return

    build_environment
    if ! is_current "$venv" locked "$locked"; then
        say "installing $lock into .venv/$name"
        "$python" -m venv --clear --without-pip "$venv"
        pip_into "$venv" install --quiet --require-hashes --only-binary :all: -r "$root/$lock"
        printf '%s\n' "$locked" >"$venv/locked"
    fi

    say "installing the wheel of this checkout into .venv/$name"
    rm -rf "$venv/built" "$venv/wheel"
    "$root/.venv/build/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$venv/wheel" "$root"
    pip_into "$venv" install --quiet --no-deps --no-index --force-reinstall "$venv/wheel/"*.whl
    printf '%s\n' "$built" >"$venv/built"
}
