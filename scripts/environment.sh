# shellcheck shell=bash
# Makes the virtual environments for the scripts in this folder. Sourced, never run.
#
#   .venv/build   pip and the build backend: builds the wheel and fills the other two
#   .venv/run     the content of a deployment: the runtime lock and the wheel, no pip, no build tool
#   .venv/dev     the same plus the tools of tests and checks
#
# With PYTHON set, build and dev are called .venv/dev-3.13 and so on, so that environments for several Pythons can
# coexist.
#
# Each is made once, and again only when a lock file, the sources, the Python or the path of the checkout changes.

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"

# The caller's settings of the package source (index, proxy, certificate) stay. Settings that would send an installation
# elsewhere, or change what is installed, are removed. PIP_USER=0 also overrides a pip.conf.
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_EDITABLE PIP_REQUIREMENT PIP_CONSTRAINT PIP_REQUIRE_HASHES \
    PIP_REQUIRE_VIRTUALENV PIP_DRY_RUN PIP_NO_DEPS PIP_NO_BINARY PIP_REPORT PYTHONHOME PYTHONPATH
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf 'rollcall: %s\n' "$*" >&2; }

# The supported releases of Python, oldest first, as in pyproject.toml.
supported=(3.11 3.12 3.13 3.14)

# python_of RELEASE: prints a Python of that release, on PATH or of pyenv. A shim of pyenv may exist but fail to run.
python_of() {
    local candidate probe='import sys, venv, ensurepip; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])'
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1"; do
        if "$candidate" -I -c "$probe" "$1" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

release_of() { "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# Sets `python` to a Python that can make virtual environments: only $PYTHON if it is set, else the first on PATH. Sets
# `suffix` to the suffix of the names of its environments.
find_python() {
    local candidate candidates=(python3 python3.14 python3.13 python3.12 python3.11 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python="$candidate"
            suffix="${PYTHON:+-$(release_of "$python")}"
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

# Prints one hash of the Python, the path of the checkout (virtual environments have absolute paths) and the given
# files.
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

# is_current VENV STAMP HASH: VENV has that hash in its file STAMP, and its Python still exists.
is_current() { [ -x "$1/bin/python" ] && [ -f "$1/$2" ] && [ "$(cat "$1/$2")" = "$3" ]; }

build_environment() {
    local wanted
    wanted="$(digest requirements-build.lock)"
    is_current "$builder" stamp "$wanted" && return
    say "preparing .venv/build$suffix"
    "$python" -m venv --clear "$builder"
    "$builder/bin/python" -m pip install --quiet --require-hashes --only-binary :all: -r "$root/requirements-build.lock"
    printf '%s\n' "$wanted" >"$builder/stamp"
}

# pip_here ARGUMENTS: runs the build environment's pip for the environment in `venv`.
pip_here() { "$builder/bin/python" -m pip --python "$venv/bin/python" "$@"; }

# locked_environment NAME LOCK: makes .venv/NAME with the packages of LOCK, and sets `venv` to it.
locked_environment() {
    local name="$1" lock="$2" locked
    find_python
    builder="$root/.venv/build$suffix"
    # The README names the path of `run`, so it has no suffix.
    [ "$name" = run ] || name="$name$suffix"
    venv="$root/.venv/$name"
    locked="$(digest "$lock")"
    is_current "$venv" locked "$locked" && return
    build_environment
    say "installing $lock into .venv/$name"
    "$python" -m venv --clear --without-pip "$venv"
    pip_here install --quiet --require-hashes --only-binary :all: -r "$root/$lock"
    printf '%s\n' "$locked" >"$venv/locked"
}

# environment NAME LOCK: makes .venv/NAME with exactly LOCK and the wheel of the checkout, and sets `venv` to it.
environment() {
    local lock="$2" built
    locked_environment "$@"
    built="$(digest "$lock" requirements-build.lock pyproject.toml README.md LICENSE webhook)"
    is_current "$venv" built "$built" && return

    build_environment
    say "installing the wheel of this checkout into .venv/${venv##*/}"
    rm -rf "$venv/built" "$venv/wheel"
    "$builder/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$venv/wheel" "$root"
    pip_here install --quiet --no-deps --no-index --force-reinstall "$venv/wheel/"*.whl
    printf '%s\n' "$built" >"$venv/built"
}
