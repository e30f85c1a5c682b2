# shellcheck shell=bash
# Makes the virtual environments for the scripts in this folder. Sourced, never run.
#
#   .venv/tools   uv, which fills the other environments, and the build backend
#   .venv/run     the packages of a deployment and this checkout: a change of its code needs no installation
#   .venv/dev     the same with the tools of tests and checks
#   .venv/wheel   as dev, with the wheel that is built from this checkout instead of the checkout itself
#
# With PYTHON set, all but `run` are called .venv/dev-3.13 and so on, so that environments for several Pythons can
# coexist.
#
# Each is made once, and again only when its lock file, the Python or the path of the checkout changes; the wheel also
# when the sources change.

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"

# The caller's settings of the package source (index, proxy, certificate) stay. Settings that would send an installation
# elsewhere, or change what is installed, are removed. PIP_USER=0 also overrides a pip.conf.
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_EDITABLE PIP_REQUIREMENT PIP_CONSTRAINT PIP_REQUIRE_HASHES \
    PIP_REQUIRE_VIRTUALENV PIP_DRY_RUN PIP_NO_DEPS PIP_NO_BINARY PIP_REPORT PYTHONHOME PYTHONPATH \
    UV_PROJECT UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_CONSTRAINT UV_OVERRIDE UV_EXCLUDE UV_EXCLUDE_NEWER UV_NO_BINARY UV_PYTHON \
    UV_MANAGED_PYTHON UV_PYTHON_PREFERENCE UV_REQUIRE_HASHES
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Without bytecode each process compiles all that it imports, for seconds. It stays below .venv, also where the caller
# wants none beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$root/.venv/bytecode"

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
            # Whole, as uv takes python3 for any Python 3, and prefers its own.
            python="$("$candidate" -I -c 'import sys; print(sys.executable)')"
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

# uv reads no settings of pip, so the caller's package source is passed on; what is set for uv has precedence. Run in a
# subshell: it is for installations alone.
package_source() {
    local key value settings index= extra= links= offline= hosts= proxy= certificate= client= seconds=
    settings="$(pip_here config list 2>/dev/null)" || say "the settings of pip cannot be read; uv uses its own"
    # The later of these sections have precedence.
    while IFS='=' read -r key value; do
        value="${value#\'}" value="${value%\'}" value="${value//\\n/ }"
        case "${key##*.}" in
            index-url) index="$value" ;;
            extra-index-url) extra="$value" ;;
            find-links) links="$value" ;;
            no-index) offline="$value" ;;
            trusted-host) hosts="$value" ;;
            proxy) proxy="$value" ;;
            cert) certificate="$value" ;;
            client-cert) client="$value" ;;
            timeout | default-timeout) seconds="$value" ;;
        esac
    done < <(for key in global install :env:; do grep "^$key\." <<<"$settings"; done)
    # Each file has a known hash, wherever it comes from.
    pass_on UV_INDEX_STRATEGY unsafe-best-match
    pass_on UV_DEFAULT_INDEX "$index"
    pass_on UV_INDEX "$extra"
    pass_on UV_FIND_LINKS "$(printf '%s\n' $links | paste -sd,)"
    pass_on UV_NO_INDEX "$offline"
    pass_on UV_INSECURE_HOST "$hosts"
    pass_on ALL_PROXY "$proxy"
    pass_on SSL_CERT_FILE "$certificate"
    pass_on SSL_CLIENT_CERT "$client"
    pass_on UV_HTTP_TIMEOUT "${seconds%%.*}"
}

# pass_on NAME VALUE: exports the variable, unless it is set or the value is empty.
pass_on() {
    [ -n "${!1:-}" ] || [ -z "$2" ] || export "$1=$2"
}

# Runs pip for the environment of the tools: that of Python itself, if it has one, as a copy takes seconds to install.
pip_here() {
    if [ -x "$builder/bin/pip3" ]; then
        "$builder/bin/python" -m pip "$@"
    else
        "$python" -m pip --python "$builder/bin/python" "$@"
    fi
}

make_tools() {
    local wanted
    wanted="$(digest requirements-tools.lock)"
    if ! is_current "$builder" locked "$wanted"; then
        say "preparing ${builder#"$root/"}"
        "$python" -m venv --clear --without-pip "$builder"
        pip_here --version >/dev/null 2>&1 || "$builder/bin/python" -m ensurepip >/dev/null
        pip_here install --quiet --no-compile --require-hashes --only-binary :all: \
            -r "$root/requirements-tools.lock"
        printf '%s\n' "$wanted" >"$builder/locked"
    fi
}

# uv_here COMMAND ARGUMENTS: runs that command of `uv pip` for the environment in `venv`.
uv_here() {
    local command="$1"
    shift
    "$builder/bin/uv" pip "$command" --quiet --python "$venv/bin/python" "$@"
}

# locked_environment NAME LOCK: makes .venv/NAME with the packages of LOCK, and sets `venv` to it.
locked_environment() {
    local name="$1" lock="$2" locked
    find_python
    builder="$root/.venv/tools$suffix"
    # The README names the path of `run`, so it has no suffix.
    [ "$name" = run ] || name="$name$suffix"
    venv="$root/.venv/$name"
    locked="$(digest "$lock")"
    is_current "$venv" locked "$locked" && return
    make_tools
    say "installing $lock into .venv/$name"
    "$builder/bin/uv" venv --quiet --clear --no-project --python "$python" "$venv"
    (package_source && uv_here install --require-hashes --only-binary :all: -r "$root/$lock")
    printf '%s\n' "$locked" >"$venv/locked"
}

# environment NAME LOCK: makes .venv/NAME with exactly LOCK and this checkout, and sets `venv` to it.
environment() {
    locked_environment "$@"
    install_project "wheel:editable" "$(digest "$2" requirements-tools.lock pyproject.toml webhook/__init__.py)"
}

# wheel_environment NAME LOCK: the same with the wheel of this checkout.
wheel_environment() {
    locked_environment "$@"
    install_project wheel "$(digest "$2" requirements-tools.lock pyproject.toml README.md LICENSE webhook)"
}

# install_project TARGET HASH: builds that target of the build backend and installs it, unless HASH is installed.
install_project() {
    local output
    is_current "$venv" built "$2" && return
    make_tools
    rm -rf "$venv/built" "$venv/dist"
    output="$(cd "$root" && "$builder/bin/python" -m hatchling build -t "$1" -d "$venv/dist" 2>&1)" || {
        say "$output"
        return 1
    }
    uv_here install --no-deps --no-index --reinstall "$venv/dist/"*.whl
    printf '%s\n' "$2" >"$venv/built"
}
