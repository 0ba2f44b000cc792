"""Lines that stand for code that was left out, such as `# ... existing code ...`: written, they would replace it.

A line counts only if every word of it is one that such lines are made of, so that comments about other things are none.
"""

import hashlib
import re

from codelab_client.tools.failure import Code, ToolFailure

#: Longer lines say something.
_LINE_CHARS = 120
#: Refused texts that are remembered.
_REMEMBERED = 100
_WORD = re.compile(r"[^\W\d_]+")
_COMMENT = re.compile(r"//|#|--|/\*|\*|<!--|\{/\*|;|%|\(|\[|<|\"\"\"|'")
#: Directly before a name, three dots are JavaScript's spread.
_ELLIPSIS = re.compile(r"(?:\.\.\.|…)(?!\w)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What was left out, in the languages that models write comments in.
_REST = _words(
    "rest remaining remainder existing остальной остальное остальная остальную остальные остального остальных остаток "
    "существующий существующее существующая существующие restlicher restliche bestehender bestehende übriger übrige "
    "resto restante existente reste existant existants restant"
)
#: The same; only beside three dots, because other comments say it as well.
_OTHER = _words(
    "other others previous original old more same unchanged omitted elided truncated snipped skipped прежний прежнее "
    "прежние прочий прочие другие изменений опущен опущено опущены unverändert ausgelassen cambios omitido inchangé "
    "omis"
)
#: What is to become of it.
_STAYS = _words(
    "of stays stay remains remain unchanged same here goes keep leave copy intact untouched before above omitted "
    "elided truncated brevity часть изменений остаётся остается остаются здесь прежним прежними оставить оставьте "
    "сохранить опущен опущена опущено опущены unverändert bleibt bleiben hier des sin cambios aquí del do inchangé "
    "inchangée ici du"
)
_CODE = _words(
    "code file files function functions method methods class classes implementation implementations content contents "
    "import imports line lines logic module body component styles test tests script program text config configuration "
    "fields properties rules handlers routes код кода файл файла функции функций методы методов метод класс класса "
    "классы содержимое импорты строки строк тело логика реализация тесты codes datei methoden código archivo métodos "
    "funciones fichier méthodes fonctions"
)
_FILLERS = _words(
    "the your all any my this that its it is are as in and with to not be for from so on no further shown changed "
    "changes without was were и в как был было без весь вся все всё ваш этот этого тот то же не он она оно der die "
    "das den und wie ist el la los las y como le les et comme"
)
_VOCABULARY = _REST | _OTHER | _STAYS | _CODE | _FILLERS
_LEFT_OUT = _words("unchanged omitted elided truncated")
#: Written without spaces.
_CHINESE = re.compile(r"(?:其余|剩余|现有|原有|其他|余下)的?(?:代码|部分|内容|方法|函数)")


def is_placeholder(line: str) -> bool:
    """Whether a line stands for code that was left out."""
    line = line.strip()
    has_mark = _COMMENT.match(line) is not None
    has_ellipsis = _ELLIPSIS.search(line) is not None or (has_mark and "..." in line)
    if len(line) > _LINE_CHARS or not (has_mark or has_ellipsis):
        return False
    if _CHINESE.search(line):
        return True
    words = frozenset(_WORD.findall(line.lower()))
    if not words or not words <= _VOCABULARY:
        return False
    if has_ellipsis:
        return bool(words & (_REST | _OTHER))
    return bool((words & _REST and words & _STAYS) or (words & _LEFT_OUT and words & _CODE))


def placeholders(text: str) -> dict[str, int]:
    """The lines of a text that stand for code that was left out, without the space around, and their numbers from 1."""
    lines = enumerate(text.split("\n"), 1)
    return {line.strip(): number for number, line in lines if is_placeholder(line)}


class Placeholders:
    """Refuses, once, a text with a placeholder that the text which it replaces does not have.

    The same text for the same file passes at the second time: somebody may want it.
    """

    def __init__(self) -> None:
        self._refused_keys: dict[str, None] = {}

    def check(self, path: str, new: str, old: str, code: Code) -> None:
        """Raise ToolFailure `code` if `new`, which replaces `old` in the file, is to be refused."""
        old_placeholders = placeholders(old)
        new_placeholders = {line: number for line, number in placeholders(new).items() if line not in old_placeholders}
        if not new_placeholders:
            return
        key = hashlib.sha256(f"{path}\0{new}".encode(errors="replace")).hexdigest()
        if key in self._refused_keys:
            return
        self._refused_keys[key] = None
        if len(self._refused_keys) > _REMEMBERED:
            del self._refused_keys[next(iter(self._refused_keys))]
        line, number = next(iter(new_placeholders.items()))
        raise ToolFailure(
            code,
            f"{path}: line {number} of the new text, `{line}`, stands for code that is left out, and would replace it. "
            "Write all of the code, or replace only the lines that change with edit_file. Nothing was changed. If this "
            "text is really meant, make the same call again",
        )
