# Generated from the options of the commands of deltactl.

_deltactl_table() {
    local word
    for word in "$@"; do
        word=${word/#\~/$HOME}
        if [[ $word == *://* || -d $word/_delta_log ]]; then
            printf '%s\n' "$word"
            return
        fi
    done
}

_deltactl_ask() {
    local kind=$1 table
    shift
    table=$(_deltactl_table "$@")
    deltactl complete "$kind" ${table:+"$table"} 2>/dev/null
}

_deltactl() {
    local -a words
    # Split at blanks only: bash also splits at "=" and ":", which places and options contain.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:COMP_POINT-1:1} == ' ' ]] && words+=('')
    local current=${words[${#words[@]}-1]} previous='' command='' word
    (( ${#words[@]} > 1 )) && previous=${words[${#words[@]}-2]}
    for word in "${words[@]:1:${#words[@]}-2}"; do
        case $word in
            describe-history | describe-detail | optimize | vacuum | checkpoint | maintain | check | generate-manifest | alter | register | restore | clone | convert | explain | config) command=$word; break ;;
        esac
    done
    local typed=$current
    if [[ $current == --*=* ]]; then
        previous=${current%%=*}
        typed=${current#*=}
    fi
    typed=${typed#[\"\']}

    local kind=options values=''
    case $command:$previous in
        :--storage-option) kind=nothing ;;
        :-o | :--output) kind=choices values='table json ndjson csv github junit' ;;
        :--max-requests-per-second) kind=nothing ;;
        :--log-format) kind=choices values='text json' ;;
        :--progress) kind=choices values='auto none plain json' ;;
        describe-history:-n | describe-history:--limit) kind=nothing ;;
        describe-history:--since) kind=nothing ;;
        describe-history:--until) kind=nothing ;;
        describe-history:--operation) kind=nothing ;;
        describe-history:--version-range) kind=nothing ;;
        describe-history:--at) kind=nothing ;;
        describe-history:--version) kind=nothing ;;
        describe-history:--diff) kind=nothing ;;
        describe-history:--blame) kind=columns ;;
        describe-history:--since-version) kind=nothing ;;
        describe-history:--columns) kind=nothing ;;
        describe-history:--storage-option) kind=nothing ;;
        describe-history:-o | describe-history:--output) kind=choices values='table json ndjson csv' ;;
        describe-history:--max-requests-per-second) kind=nothing ;;
        describe-history:--log-format) kind=choices values='text json' ;;
        describe-history:--progress) kind=choices values='auto none plain json' ;;
        describe-detail:--price) kind=nothing ;;
        describe-detail:--inventory) kind=files ;;
        describe-detail:--version) kind=nothing ;;
        describe-detail:--at) kind=nothing ;;
        describe-detail:--tables-from) kind=files ;;
        describe-detail:-j | describe-detail:--jobs) kind=nothing ;;
        describe-detail:--report) kind=files ;;
        describe-detail:--storage-option) kind=nothing ;;
        describe-detail:-o | describe-detail:--output) kind=choices values='table json ndjson csv github junit' ;;
        describe-detail:--max-requests-per-second) kind=nothing ;;
        describe-detail:--log-format) kind=choices values='text json' ;;
        describe-detail:--progress) kind=choices values='auto none plain json' ;;
        optimize:--where) kind=columns ;;
        optimize:--cluster-by) kind=data-columns ;;
        optimize:--layout) kind=choices values='tile hilbert zorder linear' ;;
        optimize:--zorder-by) kind=data-columns ;;
        optimize:--min-cluster-size) kind=nothing ;;
        optimize:--spill-dir) kind=directories ;;
        optimize:--since-version) kind=nothing ;;
        optimize:--skip-hot) kind=nothing ;;
        optimize:--target-size) kind=nothing ;;
        optimize:--min-file-size) kind=nothing ;;
        optimize:--min-input-files) kind=nothing ;;
        optimize:--max-deleted-rows-ratio) kind=nothing ;;
        optimize:--max-bytes) kind=nothing ;;
        optimize:--memory) kind=nothing ;;
        optimize:--codec) kind=nothing ;;
        optimize:--rewrite) kind=choices values='auto copy encode' ;;
        optimize:--min-row-group) kind=nothing ;;
        optimize:--verify) kind=choices values='counts full' ;;
        optimize:--if-needed) kind=nothing ;;
        optimize:--commit-every) kind=nothing ;;
        optimize:--max-concurrent) kind=nothing ;;
        optimize:--engine) kind=choices values='auto spark local' ;;
        optimize:--spark-threshold) kind=nothing ;;
        optimize:--master) kind=nothing ;;
        optimize:--spark-remote) kind=nothing ;;
        optimize:--spark-conf) kind=nothing ;;
        optimize:--user-name) kind=nothing ;;
        optimize:--user-metadata) kind=nothing ;;
        optimize:--commit-info) kind=nothing ;;
        optimize:--log-store) kind=choices values='dynamodb' ;;
        optimize:--ddb-table-name) kind=nothing ;;
        optimize:--ddb-region) kind=nothing ;;
        optimize:--timeout) kind=nothing ;;
        optimize:--tables-from) kind=files ;;
        optimize:-j | optimize:--jobs) kind=nothing ;;
        optimize:--report) kind=files ;;
        optimize:--min-interval) kind=nothing ;;
        optimize:--storage-option) kind=nothing ;;
        optimize:-o | optimize:--output) kind=choices values='table json ndjson csv github junit' ;;
        optimize:--max-requests-per-second) kind=nothing ;;
        optimize:--log-format) kind=choices values='text json' ;;
        optimize:--progress) kind=choices values='auto none plain json' ;;
        vacuum:--retain) kind=nothing ;;
        vacuum:--mode) kind=choices values='auto full lite' ;;
        vacuum:--inventory) kind=files ;;
        vacuum:--dump-listing) kind=files ;;
        vacuum:--keep-version) kind=nothing ;;
        vacuum:--keep-last) kind=nothing ;;
        vacuum:--also-keep-for) kind=directories ;;
        vacuum:--max-files) kind=nothing ;;
        vacuum:--if-needed) kind=nothing ;;
        vacuum:--max-orphan-fraction) kind=nothing ;;
        vacuum:--quarantine-for) kind=nothing ;;
        vacuum:--undo) kind=nothing ;;
        vacuum:--forget-clone) kind=directories ;;
        vacuum:--engine) kind=choices values='auto spark local' ;;
        vacuum:--spark-threshold) kind=nothing ;;
        vacuum:--master) kind=nothing ;;
        vacuum:--spark-remote) kind=nothing ;;
        vacuum:--spark-conf) kind=nothing ;;
        vacuum:--user-name) kind=nothing ;;
        vacuum:--user-metadata) kind=nothing ;;
        vacuum:--commit-info) kind=nothing ;;
        vacuum:--log-store) kind=choices values='dynamodb' ;;
        vacuum:--ddb-table-name) kind=nothing ;;
        vacuum:--ddb-region) kind=nothing ;;
        vacuum:--timeout) kind=nothing ;;
        vacuum:--tables-from) kind=files ;;
        vacuum:-j | vacuum:--jobs) kind=nothing ;;
        vacuum:--report) kind=files ;;
        vacuum:--min-interval) kind=nothing ;;
        vacuum:--storage-option) kind=nothing ;;
        vacuum:-o | vacuum:--output) kind=choices values='table json ndjson csv github junit' ;;
        vacuum:--max-requests-per-second) kind=nothing ;;
        vacuum:--log-format) kind=choices values='text json' ;;
        vacuum:--progress) kind=choices values='auto none plain json' ;;
        checkpoint:--version) kind=nothing ;;
        checkpoint:--kind) kind=choices values='auto classic v2' ;;
        checkpoint:--compat) kind=choices values='default spark plain' ;;
        checkpoint:--compact-log) kind=nothing ;;
        checkpoint:--if-needed) kind=nothing ;;
        checkpoint:--engine) kind=choices values='auto spark local' ;;
        checkpoint:--spark-threshold) kind=nothing ;;
        checkpoint:--master) kind=nothing ;;
        checkpoint:--spark-remote) kind=nothing ;;
        checkpoint:--spark-conf) kind=nothing ;;
        checkpoint:--log-store) kind=choices values='dynamodb' ;;
        checkpoint:--ddb-table-name) kind=nothing ;;
        checkpoint:--ddb-region) kind=nothing ;;
        checkpoint:--timeout) kind=nothing ;;
        checkpoint:--tables-from) kind=files ;;
        checkpoint:-j | checkpoint:--jobs) kind=nothing ;;
        checkpoint:--min-interval) kind=nothing ;;
        checkpoint:--storage-option) kind=nothing ;;
        checkpoint:-o | checkpoint:--output) kind=choices values='table json ndjson csv github junit' ;;
        checkpoint:--max-requests-per-second) kind=nothing ;;
        checkpoint:--log-format) kind=choices values='text json' ;;
        checkpoint:--progress) kind=choices values='auto none plain json' ;;
        maintain:--only) kind=nothing ;;
        maintain:--budget) kind=nothing ;;
        maintain:--memory) kind=nothing ;;
        maintain:--policy) kind=files ;;
        maintain:--metrics) kind=files ;;
        maintain:--max-concurrent) kind=nothing ;;
        maintain:--engine) kind=choices values='auto spark local' ;;
        maintain:--spark-threshold) kind=nothing ;;
        maintain:--master) kind=nothing ;;
        maintain:--spark-remote) kind=nothing ;;
        maintain:--spark-conf) kind=nothing ;;
        maintain:--user-name) kind=nothing ;;
        maintain:--user-metadata) kind=nothing ;;
        maintain:--commit-info) kind=nothing ;;
        maintain:--log-store) kind=choices values='dynamodb' ;;
        maintain:--ddb-table-name) kind=nothing ;;
        maintain:--ddb-region) kind=nothing ;;
        maintain:--timeout) kind=nothing ;;
        maintain:--tables-from) kind=files ;;
        maintain:-j | maintain:--jobs) kind=nothing ;;
        maintain:--report) kind=files ;;
        maintain:--storage-option) kind=nothing ;;
        maintain:-o | maintain:--output) kind=choices values='table json ndjson csv github junit' ;;
        maintain:--max-requests-per-second) kind=nothing ;;
        maintain:--log-format) kind=choices values='text json' ;;
        maintain:--progress) kind=choices values='auto none plain json' ;;
        check:--version) kind=nothing ;;
        check:--files) kind=choices values='exists sizes footers data' ;;
        check:--sample) kind=nothing ;;
        check:--resume) kind=files ;;
        check:--fix) kind=choices values='checksum last-checkpoint missing-files missing-vectors path-encoding stats' ;;
        check:--path) kind=nothing ;;
        check:--expect-files) kind=nothing ;;
        check:--erased) kind=nothing ;;
        check:--engine) kind=choices values='auto spark local' ;;
        check:--spark-threshold) kind=nothing ;;
        check:--master) kind=nothing ;;
        check:--spark-remote) kind=nothing ;;
        check:--spark-conf) kind=nothing ;;
        check:--user-name) kind=nothing ;;
        check:--user-metadata) kind=nothing ;;
        check:--commit-info) kind=nothing ;;
        check:--log-store) kind=choices values='dynamodb' ;;
        check:--ddb-table-name) kind=nothing ;;
        check:--ddb-region) kind=nothing ;;
        check:--timeout) kind=nothing ;;
        check:--tables-from) kind=files ;;
        check:-j | check:--jobs) kind=nothing ;;
        check:--report) kind=files ;;
        check:--storage-option) kind=nothing ;;
        check:-o | check:--output) kind=choices values='table json ndjson csv github junit' ;;
        check:--max-requests-per-second) kind=nothing ;;
        check:--log-format) kind=choices values='text json' ;;
        check:--progress) kind=choices values='auto none plain json' ;;
        generate-manifest:--version) kind=nothing ;;
        generate-manifest:--where) kind=columns ;;
        generate-manifest:--since) kind=nothing ;;
        generate-manifest:--scheme-map) kind=nothing ;;
        generate-manifest:--ddl) kind=choices values='athena trino hive redshift' ;;
        generate-manifest:--output-root) kind=directories ;;
        generate-manifest:--user-name) kind=nothing ;;
        generate-manifest:--user-metadata) kind=nothing ;;
        generate-manifest:--commit-info) kind=nothing ;;
        generate-manifest:--log-store) kind=choices values='dynamodb' ;;
        generate-manifest:--ddb-table-name) kind=nothing ;;
        generate-manifest:--ddb-region) kind=nothing ;;
        generate-manifest:--timeout) kind=nothing ;;
        generate-manifest:--tables-from) kind=files ;;
        generate-manifest:-j | generate-manifest:--jobs) kind=nothing ;;
        generate-manifest:--min-interval) kind=nothing ;;
        generate-manifest:--storage-option) kind=nothing ;;
        generate-manifest:-o | generate-manifest:--output) kind=choices values='table json ndjson csv github junit' ;;
        generate-manifest:--max-requests-per-second) kind=nothing ;;
        generate-manifest:--log-format) kind=choices values='text json' ;;
        generate-manifest:--progress) kind=choices values='auto none plain json' ;;
        alter:--set) kind=nothing ;;
        alter:--unset) kind=nothing ;;
        alter:--add-feature) kind=nothing ;;
        alter:--drop-feature) kind=nothing ;;
        alter:--engine) kind=choices values='auto spark local' ;;
        alter:--spark-threshold) kind=nothing ;;
        alter:--master) kind=nothing ;;
        alter:--spark-remote) kind=nothing ;;
        alter:--spark-conf) kind=nothing ;;
        alter:--user-name) kind=nothing ;;
        alter:--user-metadata) kind=nothing ;;
        alter:--commit-info) kind=nothing ;;
        alter:--log-store) kind=choices values='dynamodb' ;;
        alter:--ddb-table-name) kind=nothing ;;
        alter:--ddb-region) kind=nothing ;;
        alter:--timeout) kind=nothing ;;
        alter:--tables-from) kind=files ;;
        alter:-j | alter:--jobs) kind=nothing ;;
        alter:--storage-option) kind=nothing ;;
        alter:-o | alter:--output) kind=choices values='table json ndjson csv github junit' ;;
        alter:--max-requests-per-second) kind=nothing ;;
        alter:--log-format) kind=choices values='text json' ;;
        alter:--progress) kind=choices values='auto none plain json' ;;
        register:--timeout) kind=nothing ;;
        register:--storage-option) kind=nothing ;;
        register:-o | register:--output) kind=choices values='table json ndjson csv' ;;
        register:--max-requests-per-second) kind=nothing ;;
        register:--log-format) kind=choices values='text json' ;;
        register:--progress) kind=choices values='auto none plain json' ;;
        restore:--to-version) kind=nothing ;;
        restore:--to-timestamp) kind=nothing ;;
        restore:--where) kind=columns ;;
        restore:--expect-files) kind=nothing ;;
        restore:--engine) kind=choices values='auto spark local' ;;
        restore:--spark-threshold) kind=nothing ;;
        restore:--master) kind=nothing ;;
        restore:--spark-remote) kind=nothing ;;
        restore:--spark-conf) kind=nothing ;;
        restore:--user-name) kind=nothing ;;
        restore:--user-metadata) kind=nothing ;;
        restore:--commit-info) kind=nothing ;;
        restore:--log-store) kind=choices values='dynamodb' ;;
        restore:--ddb-table-name) kind=nothing ;;
        restore:--ddb-region) kind=nothing ;;
        restore:--timeout) kind=nothing ;;
        restore:--storage-option) kind=nothing ;;
        restore:-o | restore:--output) kind=choices values='table json ndjson csv' ;;
        restore:--max-requests-per-second) kind=nothing ;;
        restore:--log-format) kind=choices values='text json' ;;
        restore:--progress) kind=choices values='auto none plain json' ;;
        clone:--version) kind=nothing ;;
        clone:--timestamp) kind=nothing ;;
        clone:--where) kind=columns ;;
        clone:--property) kind=properties ;;
        clone:--source-storage-option) kind=nothing ;;
        clone:--engine) kind=choices values='auto spark local' ;;
        clone:--spark-threshold) kind=nothing ;;
        clone:--master) kind=nothing ;;
        clone:--spark-remote) kind=nothing ;;
        clone:--spark-conf) kind=nothing ;;
        clone:--user-name) kind=nothing ;;
        clone:--user-metadata) kind=nothing ;;
        clone:--commit-info) kind=nothing ;;
        clone:--log-store) kind=choices values='dynamodb' ;;
        clone:--ddb-table-name) kind=nothing ;;
        clone:--ddb-region) kind=nothing ;;
        clone:--timeout) kind=nothing ;;
        clone:--storage-option) kind=nothing ;;
        clone:-o | clone:--output) kind=choices values='table json ndjson csv' ;;
        clone:--max-requests-per-second) kind=nothing ;;
        clone:--log-format) kind=choices values='text json' ;;
        clone:--progress) kind=choices values='auto none plain json' ;;
        convert:--partition-by) kind=data-columns ;;
        convert:--schema-mode) kind=choices values='strict widen' ;;
        convert:--property) kind=properties ;;
        convert:--name) kind=nothing ;;
        convert:--description) kind=nothing ;;
        convert:--engine) kind=choices values='auto spark local' ;;
        convert:--spark-threshold) kind=nothing ;;
        convert:--master) kind=nothing ;;
        convert:--spark-remote) kind=nothing ;;
        convert:--spark-conf) kind=nothing ;;
        convert:--user-name) kind=nothing ;;
        convert:--user-metadata) kind=nothing ;;
        convert:--commit-info) kind=nothing ;;
        convert:--log-store) kind=choices values='dynamodb' ;;
        convert:--ddb-table-name) kind=nothing ;;
        convert:--ddb-region) kind=nothing ;;
        convert:--timeout) kind=nothing ;;
        convert:--storage-option) kind=nothing ;;
        convert:-o | convert:--output) kind=choices values='table json ndjson csv' ;;
        convert:--max-requests-per-second) kind=nothing ;;
        convert:--log-format) kind=choices values='text json' ;;
        convert:--progress) kind=choices values='auto none plain json' ;;
        explain:--log-format) kind=choices values='text json' ;;
        config:--command) kind=nothing ;;
        config:--storage-option) kind=nothing ;;
        config:--log-format) kind=choices values='text json' ;;
    esac
    if [[ $kind == options ]]; then
        case $command in
            '') values='--storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --version --install-completion --show-completion --help-all -h --help' ;;
            describe-history) values='-n --limit --since --until --operation --restorable --all --version-range --at --version --files --diff --blame --follow --since-version --columns --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            describe-detail) values='--price --inventory --version --at --layout --readers --storage --tables-from -j --jobs --fail-fast --report --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            optimize) values='--where --purge --cluster-by --layout --zorder-by --full --min-cluster-size --spill-dir --since-version --skip-hot --target-size --min-file-size --min-input-files --max-deleted-rows-ratio --max-bytes --memory --codec --rewrite --min-row-group --verify --if-needed --commit-every --max-concurrent --check --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --report --min-interval --no-lease --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            vacuum) values='--retain --mode --inventory --dump-listing --keep-version --keep-last --also-keep-for --max-files --if-needed --ignore-manifests --max-orphan-fraction --force-retention --quarantine --quarantine-for --yes --undo --purge-quarantine --forget-clone --include-unknown --check --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --report --min-interval --no-lease --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            checkpoint) values='--version --kind --compat --cleanup --cleanup-only --compact-log --if-needed --repair --check --yes --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --min-interval --no-lease --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            maintain) values='--only --budget --no-lease --memory --policy --metrics --max-concurrent --check --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --report --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            check) values='--version --all-versions --files --sample --checkpoints --dvs --proofs --published-only --resume --fix --path --expect-files --drop-files --keep-deleted-rows --yes --dry-run --erased --versions --redact --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --report --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            generate-manifest) values='--version --where --since --scheme-map --purge-first --ddl --check --output-root --dry-run --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --min-interval --no-lease --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            alter) values='--set --unset --add-feature --drop-feature --truncate-history --yes --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --tables-from -j --jobs --fail-fast --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            register) values='--manifest --sync --replace --check --dry-run --timeout --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            restore) values='--to-version --to-timestamp --where --ignore-missing --expect-files --allow-protocol-downgrade --yes --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            clone) values='--deep --version --timestamp --where --property --sync --replace --full --published-only --no-note --shallow --source-storage-option --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            convert) values='--partition-by --no-statistics --schema-mode --column-mapping --property --name --description --dry-run --engine --spark-threshold --master --spark-remote --spark-conf --user-name --user-metadata --commit-info --log-store --ddb-table-name --ddb-region --timeout --storage-option -o --output -q --quiet -v --verbose --debug --no-color --max-requests-per-second --log-format --progress --help-all -h --help' ;;
            explain) values='-q --quiet -v --verbose --debug --no-color --log-format --help-all -h --help' ;;
            config) values='--command --storage-option -q --quiet -v --verbose --debug --no-color --log-format --help-all -h --help' ;;
        esac
        [[ $current == -* ]] || kind=positional
    fi
    if [[ $kind == positional ]]; then
        values=''
        case $command in
            '') values='describe-history describe-detail optimize vacuum checkpoint maintain check generate-manifest alter register restore clone convert explain config' ;;
            describe-history) kind=directories ;;
            describe-detail) kind=directories ;;
            optimize) kind=directories ;;
            vacuum) kind=directories ;;
            checkpoint) kind=directories ;;
            maintain) kind=directories ;;
            check) kind=directories ;;
            generate-manifest) kind=directories ;;
            alter) kind=directories ;;
            register) kind=directories ;;
            restore) kind=directories ;;
            clone) kind=directories ;;
            convert) kind=directories ;;
            explain) values='FAILED INTERNAL USAGE PREDICATE TABLE NOT_A_TABLE VERSION_NOT_FOUND LOG_CORRUPT LOG_GAP LOG_ACTION_MISSING LOG_FILE_MISSING DATA_FILE FILE_MISSING VERIFICATION CONFLICT COMMIT_UNKNOWN COMMIT_DAMAGED FILES_GONE PARTIAL SEARCH_INCOMPLETE SAFETY CONVERSION UNSUPPORTED_FEATURE STORAGE OBJECT_NOT_FOUND OBJECT_EXISTS STORAGE_BUSY STORAGE_UNSUPPORTED UNREACHABLE BUCKET_NOT_FOUND ACCESS_DENIED CREDENTIALS_MISSING CREDENTIALS_REFUSED CREDENTIALS_EXPIRED MEMORY ENGINE_UNAVAILABLE INTERRUPTED TIMEOUT NOT_BEGUN LEASE_HELD HISTORY_GAP COMMIT_UNREADABLE COMMIT_AMBIGUOUS COMMIT_DOUBTFUL COMMIT_TIME LOG_UNREADABLE PROTOCOL_INVALID FEATURE_MISSING SCHEMA_INVALID DEFAULT_UNCLEAR SCHEMA_EMPTY SCHEMA_MISSING CHECKPOINT_UNREADABLE CHECKPOINT_WRONG CHECKPOINT_DOUBTFUL HINT_WRONG CHECKSUM_WRONG COMPACTED_WRONG PATH_INVALID FILE_DUPLICATE REMOVE_MISSED REMOVE_REPEATED RESTORE_INCOMPLETE PATH_ENCODING PATH_ENCODING_DOUBTFUL FILE_SIZE FILE_UNCHECKED FILE_ARCHIVED FILE_UNCOMMITTED FILE_UNREADABLE COLUMN_UNKNOWN COLUMN_CASE STATS_ROWS STATS_NULLS STATS_BOUNDS STATS_LOOSE STATS_UNREADABLE ROWS_CHANGED PARTITION_VALUE VECTOR_MISSING VECTOR_UNREADABLE VECTOR_CARDINALITY VECTOR_ROWS ROW_IDS_MISSING ROW_IDS_OVERLAP ROW_IDS_MARK IDENTITY_MARK CATALOG_LOCATION CATALOG_ID CATALOG_COLUMNS CATALOG_MANIFESTS CATALOG_NAMES COMMIT_NOT_RATIFIED COMMITS_NOT_PUBLISHED STAGED_NOT_RATIFIED WORK_NEEDED' ;;
            config) kind=nothing ;;
        esac
    fi

    COMPREPLY=()
    case $kind in
        files) mapfile -t COMPREPLY < <(compgen -f -- "$typed"); compopt -o filenames 2>/dev/null ;;
        directories)
            mapfile -t COMPREPLY < <(compgen -d -- "$typed"); compopt -o filenames 2>/dev/null ;;
        columns | data-columns | properties)
            values=$(_deltactl_ask "$kind" "${words[@]:1}")
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$typed")
            compopt -o nospace 2>/dev/null ;;
        nothing) ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$typed") ;;
    esac
}

complete -F _deltactl deltactl
